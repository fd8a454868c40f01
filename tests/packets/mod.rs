//! Who answers a client and what it sees of it, as tables, on kube-proxy and on deltaproxy.
//!
//! The tables lie beside this file, with a README on how to read them. Every cell is tried by real
//! connections in both families. Both programs have to give what the table says, and with that the
//! same; and so has `explain`, of the rules that are in the kernel meanwhile.

mod affinity;
mod ask;
mod cluster;
mod explained;
mod scene;
mod table;
mod words;

use crate::support::daemon::Backend;
use crate::support::left_out::is_due;
use crate::support::{on_both_backends, tell};
use affinity::Departure;
use scene::{Scene, programs};
use words::{Variant, Word};

on_both_backends!(Upstream, packets_go_where_the_tables_say);

fn packets_go_where_the_tables_say(backend: Backend) {
    let scene = Scene::new(backend, table::all());
    let mut tally = Tally::default();
    // One half of the variants on each backend, and the other half the next day.
    let turn = u64::from(backend == Backend::Legacy);
    let is_due = [is_due(turn, 2), is_due(turn + 1, 2)];
    for (number, (variant, name)) in Variant::WORDS.iter().enumerate() {
        if *variant != Variant::Default && !is_due[number % 2] {
            continue;
        }
        for (number, (program_name, program)) in programs().into_iter().enumerate() {
            let mut daemon = scene.start(&program, *variant);
            tally.ask(&scene, *variant, name, program_name);
            if *variant == Variant::Default {
                for server in ['a', 'b', 'c'] {
                    let departure = Departure::of(server, &scene);
                    tally.add(name, departure.counts(), departure.complaints(program_name));
                }
            }
            daemon.assert_running();
            if *variant == Variant::Default {
                daemon.terminate();
                // This asks `explain`: both programs have left the same rules.
                if is_due[number % 2] {
                    tally.ask_damaged(&scene, program_name);
                }
            }
        }
    }
    let [theirs, ours] = programs();
    for ((_, before), (name, after)) in [(&theirs, &ours), (&ours, &theirs)] {
        // Other flags, so that nothing can be left as it is.
        drop(scene.start(before, Variant::NoDetector));
        let _daemon = scene.take_over(after, Variant::Default);
        tally.ask(&scene, Variant::Default, "taken over", name);
    }
    // Before a failure is reported, and not with the logs of the control plane behind it.
    drop(scene);
    tally.conclude(backend);
}

/// What came of all cells of all programs.
#[derive(Default)]
struct Tally {
    cells: usize,
    attempts: usize,
    /// How many of the cells were also explained by the rules.
    explained: usize,
    complaints: Vec<String>,
}

impl Tally {
    /// Tries all cells that hold for a variant.
    fn ask(&mut self, scene: &Scene, variant: Variant, name: &str, program: &str) {
        let questions = ask::questions(&scene.services, variant);
        let outcomes = ask::ask_all(scene, &questions);
        let attempts = outcomes.iter().map(|outcome| outcome.attempts).sum();
        let mut complaints = ask::complaints(program, &questions, &outcomes);
        complaints.extend(explained::complaints(program, scene, &questions));
        self.explained += questions.len();
        self.add(name, (questions.len(), attempts), complaints);
    }

    /// Tries all cells that hold after a damage to the rules that a program left.
    fn ask_damaged(&mut self, scene: &Scene, program: &str) {
        for (index, service) in scene.services.iter().enumerate() {
            for damage in &service.damages {
                let saved = scene.damage(service, damage);
                let questions = ask::damaged(service, index, damage);
                let outcomes = ask::ask_all(scene, &questions);
                let attempts = outcomes.iter().map(|outcome| outcome.attempts).sum();
                let mut complaints = ask::complaints(program, &questions, &outcomes);
                complaints.extend(explained::complaints(program, scene, &questions));
                // Rules of source ranges are not followed there.
                if service.word("ranges").is_none() {
                    complaints.extend(explained::services_complaints(program, scene, &questions));
                }
                self.explained += questions.len();
                self.add("damaged", (questions.len(), attempts), complaints);
                saved.restore();
            }
        }
    }

    fn add(&mut self, name: &str, (cells, attempts): (usize, usize), complaints: Vec<String>) {
        self.cells += cells;
        self.attempts += attempts;
        let lines = complaints.into_iter();
        self.complaints
            .extend(lines.map(|line| format!("{name}: {line}")));
    }

    /// Tells of all that is wrong, the two programs side by side.
    #[track_caller]
    fn conclude(mut self, backend: Backend) {
        let Self {
            cells,
            attempts,
            explained,
            ..
        } = self;
        let whole = format!("{cells} cells of 2 programs on {}", backend.name());
        self.complaints.sort();
        assert!(
            self.complaints.is_empty(),
            "{} of {whole} are wrong\n{}",
            self.complaints.len(),
            self.complaints.join("\n")
        );
        tell(format_args!(
            "packets: {whole} are right, by {attempts} attempts; {explained} also as explained"
        ));
    }
}
