//! A virtual user, who creates, scales and deletes one Service after the other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::load;
use crate::support::api::Api;

/// Pause between two requests of a user, as a person or a pipeline makes one.
const PAUSE: Duration = Duration::from_millis(250);

/// Endpoints of a Service that is created, and of one that was scaled.
const SMALL: usize = 2;
const LARGE: usize = 5;

/// Repeats until all users together have taken this many iterations. Returns when each change of
/// endpoints was asked for.
pub fn work(api: &Api, taken: &AtomicUsize, iterations: usize) -> Vec<Instant> {
    let mut asked = Vec::new();
    loop {
        let number = taken.fetch_add(1, Ordering::Relaxed);
        if number >= iterations {
            return asked;
        }
        let name = format!("user-{number}");
        load::create_service(api, &name);
        asked.push(Instant::now());
        load::create_endpoints(api, &name, (number, SMALL));
        thread::sleep(PAUSE);
        asked.push(Instant::now());
        load::scale_endpoints(api, &name, (number, LARGE));
        thread::sleep(PAUSE);
        load::delete_service(api, &name);
        thread::sleep(PAUSE);
    }
}
