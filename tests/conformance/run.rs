//! One random history from its beginning to its end, and what is said when it fails.

use std::fmt::{self, Write as _};
use std::ops::AddAssign;
use std::time::Instant;

use super::features::{self, Sight};
use super::random::History;
use super::releases::{Appeared, Release};
use super::service::NAMESPACES;
use super::stage::{Effect, Op, Size, Stage};
use super::support::rules::Family;
use super::support::tell;
use super::variant::{Variant, group};

/// How far a history goes before the programs start: they find a cluster that is in use.
const STEPS_BEFORE: usize = 12;

/// What is run.
#[derive(Debug)]
pub struct Plan {
    /// The history is a function of it.
    seed: u64,
    /// Whether the threshold is crossed.
    size: Size,
    /// Steps with a comparison after each.
    steps: usize,
    /// Who follows the history, side by side.
    variants: &'static [Variant],
}

impl Plan {
    /// The seed says which variants, too.
    pub fn new(seed: u64, size: Size, steps: usize) -> Self {
        let variants = group(seed);
        Self {
            seed,
            size,
            steps,
            variants,
        }
    }
}

/// What has been seen. Differences are not in it: the first one is the end.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Steps with a comparison.
    pub steps: usize,
    /// Those that changed kube-proxy's rules.
    pub visible: usize,
    /// How often the cluster became large, or small again.
    pub crossings: usize,
    /// Objects that the API server found invalid.
    pub refused: usize,
    /// Rulesets of two kernels compared.
    pub compared: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.visible += other.visible;
        self.crossings += other.crossings;
        self.refused += other.refused;
        self.compared += other.compared;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} random steps, {} of which changed kube-proxy's rules; {} crossings of the threshold, \
             {} objects refused, {} pairs of rulesets compared, 0 differences",
            self.steps, self.visible, self.crossings, self.refused, self.compared
        )
    }
}

/// Runs a history, and panics at the first difference with everything that reproduces it.
pub fn run(plan: &Plan) -> Tally {
    let start = Instant::now();
    let mut stage = Stage::new(&NAMESPACES);
    let mut history = History::new(plan.seed, plan.size);
    let release = Release::of("kube-proxy");
    for _ in 0..STEPS_BEFORE {
        stage.prepare(&release.avoid(history.edit_objects()));
    }
    if plan.size == Size::Large {
        stage.prepare(&History::crowd());
    }
    stage.cast(&plan.variants.iter().collect::<Vec<_>>());
    let mut tally = Tally::default();
    let mut was_large = false;
    for step in 0..plan.steps {
        let ops = release.avoid(history.step());
        let effect = take(&mut stage, (plan.seed, step), &ops, plan.size);
        tally.steps += 1;
        tally.refused += effect.refused.len();
        tally.visible += usize::from(effect.has_changed_rules);
        tally.crossings += usize::from(effect.is_large != was_large);
        tally.compared += plan.variants.len() * Family::ALL.len();
        was_large = effect.is_large;
    }
    let names: Vec<_> = plan.variants.iter().map(|variant| variant.name).collect();
    let (seed, names) = (plan.seed, names.join("; "));
    let seconds = start.elapsed().as_secs();
    tell(format_args!(
        "conformance: seed {seed}, {names}: {tally}, {seconds} s"
    ));
    // A history that shows nothing, or that the server takes little of, proves nothing.
    assert!(tally.refused * 4 < tally.steps, "too much refused: {tally}");
    assert!(
        tally.visible * 4 > tally.steps,
        "too little to see: {tally}"
    );
    tally
}

/// Takes a step of a history, of this seed and number. Panics if it leaves different rules.
pub fn take(stage: &mut Stage, (seed, step): (u64, usize), ops: &[Op], size: Size) -> Effect {
    let effect = stage.step(ops, size);
    assert!(
        effect.differences.is_empty(),
        "step {step} of seed {seed} left different rules (kube-proxy -, deltaproxy +)\n{}\n{}\n\
         {:#?}\nto repeat it: CONFORMANCE_SEED={seed}",
        effect.differences,
        words(ops, &effect.refused),
        effect.damage,
    );
    effect
}

/// What the features have shown.
#[derive(Debug, Default, Clone)]
pub struct FeatureTally {
    /// Steps with a comparison.
    pub steps: usize,
    /// Rulesets of two kernels compared.
    pub compared: usize,
    /// Differences between releases of kube-proxy.
    pub appeared: Appeared,
}

/// Plays every feature, and panics when all have been played if one was not as it should be.
pub fn features(variants: &'static [Variant]) -> FeatureTally {
    let release = Release::of("kube-proxy");
    let mut stage = Stage::new(&[features::NAMESPACE]);
    stage.cast(&variants.iter().collect::<Vec<_>>());
    let mut complaints = Vec::new();
    let mut tally = FeatureTally::default();
    let nothing = stage.step(&[], Size::Small);
    assert_eq!(nothing.differences, "", "an empty cluster");
    for feature in features::features() {
        let differs = feature.differs_in(&release);
        for step in &feature.steps {
            tally.steps += 1;
            let effect = stage.step(&step.ops, Size::Small);
            let difference = step.difference.filter(|step| release.has(step));
            let why = match difference {
                Some(difference) if !effect.differences.is_empty() => {
                    tally.appeared.add(difference);
                    difference.explains(&effect.differences).err()
                }
                // What kube-proxy shows depends on the release in the other steps as well.
                _ if differs => complaint(None, &effect),
                _ => complaint(Some(step.sight), &effect),
            };
            complaints.extend(why.map(|why| {
                let done = words(&step.ops, &effect.refused);
                format!("{}: {}: {why}\n{done}", feature.name, step.name)
            }));
        }
        let effect = stage.step(&feature.end(), Size::Small);
        complaints.extend(
            complaint((!differs).then_some(Sight::Seen), &effect)
                .map(|why| format!("{}: the end: {why}", feature.name)),
        );
    }
    complaints.extend(tally.appeared.check(&release).err());
    tally.compared = tally.steps * variants.len() * Family::ALL.len();
    let (steps, version) = (tally.steps, &release.version);
    let appeared = &tally.appeared.0;
    tell(format_args!(
        "conformance: {steps} steps of features, kube-proxy {version}, \
         differences between releases {appeared:?}"
    ));
    assert!(
        complaints.is_empty(),
        "{} of {steps}\n{}",
        complaints.len(),
        complaints.join("\n")
    );
    tally
}

/// Without a `sight`, kube-proxy's rules may change or not.
fn complaint(sight: Option<Sight>, effect: &Effect) -> Option<String> {
    if !effect.differences.is_empty() {
        return Some(effect.differences.clone());
    }
    if let Some((_, why)) = effect.refused.first() {
        return Some(why.clone());
    }
    match (sight, effect.has_changed_rules) {
        (Some(Sight::Seen), false) => Some("kube-proxy's rules did not change".to_owned()),
        (Some(Sight::Unseen), true) => Some("kube-proxy's rules changed".to_owned()),
        _ => None,
    }
}

/// What a step did, for a report.
pub fn words(ops: &[Op], refused: &[(usize, String)]) -> String {
    let mut text = String::new();
    for (at, op) in ops.iter().enumerate() {
        let _ = match op {
            Op::Apply(object) => writeln!(text, "apply {object}"),
            Op::Delete(object) => {
                writeln!(text, "delete {} {}", object["kind"], object["metadata"])
            }
            Op::Exchange => writeln!(text, "exchange the programs"),
            Op::Flush => writeln!(text, "flush all tables"),
            Op::Zone(zone) => writeln!(text, "the Node's zone becomes {zone:?}"),
            Op::RestartUpstream => writeln!(text, "restart kube-proxy"),
            Op::RestartOurs => writeln!(text, "restart deltaproxy"),
            Op::Fault(fault, number) => writeln!(text, "fault {fault:?}, number {number}"),
            Op::EndFault(fault) => writeln!(text, "end of {fault:?}"),
        };
        for (_, why) in refused.iter().filter(|(refused, _)| *refused == at) {
            let _ = writeln!(text, "  refused: {why}");
        }
    }
    text
}
