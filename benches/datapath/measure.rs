//! All subjects with one number of Services: first their rules, then connections through them.
//!
//! All rules are there at once, each in a node namespace of its own, so that subjects can take
//! turns. No program runs meanwhile but client and server.

use std::collections::{BTreeMap, HashSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use crate::args::Args;
use crate::connect::Sources;
use crate::figures::{Latency, Run, Saturation, Target};
use crate::saturation::{saturate, wait_until_quiet};
use crate::shared::load::Load;
use crate::site::{Cpu, Site, pin};

/// Services that are connected to in turn when saturation is measured.
const SPREAD: usize = 256;
/// Connections to each target that are not timed, at the start of a round.
const WARM_UP: usize = 50;

/// Measures the subjects of this size.
pub fn measure(services: usize, args: &Args) -> Vec<Run> {
    let sites = sites(services, args);
    let other_load = wait_until_quiet();
    let mut figures: Vec<Figures> = sites.iter().map(|_| Figures::default()).collect();
    for round in 0..args.rounds {
        for turn in 0..sites.len() {
            // None always follows the same one.
            let at = (round + turn) % sites.len();
            eprintln!(
                "{services} Services, round {round}: {}",
                sites[at].subject.name()
            );
            figures[at].measure(&sites[at], args);
        }
    }
    let runs = sites.iter().zip(figures);
    runs.map(|(site, figures)| figures.run(site, services, other_load))
        .collect()
}

fn sites(services: usize, args: &Args) -> Vec<Site> {
    let ips: Vec<Ipv4Addr> = (0..services).map(cluster_ip).collect();
    let distinct: HashSet<&Ipv4Addr> = ips.iter().collect();
    assert_eq!(distinct.len(), services, "cluster IPs are distinct");
    eprintln!("{services} Services: loading");
    let control = Load::new(services, 1).at(cluster_ip).start_cluster();
    let subjects = args.subjects(services);
    let sites = (0..).zip(subjects).map(|(number, subject)| {
        eprint!("{services} Services: {}", subject.name());
        let site = Site::new(&control, subject, number, &ips, args.patience);
        eprintln!(
            ", programmed after {:.1} s",
            site.programmed_after.as_secs_f64()
        );
        site
    });
    sites.collect()
}

/// Scattered over half of the Services' /12, as the API server's own choice is: a tree of chains
/// would profit from addresses without gaps.
fn cluster_ip(number: usize) -> Ipv4Addr {
    const FIRST: u32 = u32::from_be_bytes([10, 97, 0, 0]);
    const MASK: u32 = (1 << 19) - 1;
    // Each step maps the numbers of 19 bits to themselves.
    let mut bits = u32::try_from(number).unwrap() & MASK;
    bits = bits.wrapping_mul(0x9_e375) & MASK;
    bits ^= bits >> 9;
    bits = bits.wrapping_mul(0x5_bd1d) & MASK;
    bits ^= bits >> 7;
    Ipv4Addr::from(FIRST + bits)
}

/// Figures of one subject so far.
#[derive(Default)]
struct Figures {
    /// Seconds of each connection, a list for each round.
    latency: BTreeMap<Target, Vec<Vec<f64>>>,
    failed: BTreeMap<Target, usize>,
    saturation: Saturation,
}

impl Figures {
    /// One round.
    fn measure(&mut self, site: &Site, args: &Args) {
        {
            let _server = site.serve();
            for target in Target::ALL {
                self.latency.entry(target).or_default().push(Vec::new());
            }
            site.client
                .enter(|| self.connect(site.targets(), args.connects));
        }
        let _server = site.serve();
        let targets = site.spread(SPREAD);
        let round = site
            .client
            .enter(|| saturate(&targets, args.threads, args.saturation));
        self.saturation.add(round);
    }

    /// Connects to the targets by turns, so that all meet the machine in the same state.
    fn connect(&mut self, targets: [SocketAddrV4; 4], connects: usize) {
        pin(Cpu::First);
        let mut sources = Sources::of(0);
        for number in 0..WARM_UP + connects {
            for (target, to) in Target::ALL.into_iter().zip(targets) {
                let took = sources.connect(to);
                if number < WARM_UP {
                    continue;
                }
                match took {
                    Ok(took) => {
                        let rounds = self.latency.get_mut(&target).unwrap();
                        rounds.last_mut().unwrap().push(took.as_secs_f64());
                    }
                    Err(_) => *self.failed.entry(target).or_default() += 1,
                }
            }
        }
    }

    fn run(self, site: &Site, services: usize, other_load: f64) -> Run {
        let failed = |target| self.failed.get(&target).copied().unwrap_or_default();
        let latency = self.latency.iter();
        Run {
            services,
            subject: site.subject,
            programmed_after: site.programmed_after.as_secs_f64(),
            other_load,
            latency: latency
                .map(|(target, rounds)| (*target, Latency::of(rounds, failed(*target))))
                .collect(),
            saturation: self.saturation,
        }
    }
}
