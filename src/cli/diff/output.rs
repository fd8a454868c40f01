//! Output of a comparison in each format, to stdout or by the user's own program, as `kubectl diff`
//! does.
//!
//! The program is the only one besides those of iptables that a command runs. It gets two
//! directories with a file for each family, which are deleted however it ends.
//!
//! Upstream: staging/src/k8s.io/kubectl/pkg/cmd/diff/diff.go, `getCommand` (v1.37)
//!
//! Differs from upstream: words are split as by a shell, so that quotes protect blanks. kubectl
//! splits at blanks, and drops parameters with quotes or anything else but letters, digits, `-`
//! and `=`. Parameters precede the directories instead of following them. An interrupted kubectl
//! leaves the directories behind.

use std::fmt::{self, Write as _};
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};

use super::super::terminal;
use super::sides::Sides;
use crate::config::{DiffArgs, DiffFormat, environment};
use crate::inspect::diff::{self, ManifestFacts, Review, RulesetText};

/// Prints the differences in the format that flags and environment select.
pub(super) fn print(
    args: &DiffArgs,
    sides: &Sides,
    reviews: &[Review<'_>],
    facts: &ManifestFacts,
) -> anyhow::Result<()> {
    let external = environment::external_diff();
    let format = match (args.output, &external) {
        (Some(format), _) if !args.unified => format,
        (None, None) if !args.unified => DiffFormat::Text,
        _ => DiffFormat::Unified,
    };
    if format == DiffFormat::Unified {
        // Stdout is machine-readable.
        sides
            .gaps()
            .for_each(|gap| tracing::warn!("{}", terminal::escaped(&gap)));
        warn_of_facts(facts);
    }
    match (format, &external) {
        (DiffFormat::Text, _) => print_text(|text| {
            text.push_str(&terminal::escaped(&sides.heading()));
            sides
                .gaps()
                .try_for_each(|gap| writeln!(text, "{}", terminal::escaped(&gap)))?;
            diff::text(text, reviews, facts)?;
            // Two sets of objects are rendered with the same flags, so the hint cannot apply.
            let hint = diff::hint(reviews).filter(|_| args.from_manifests.is_empty());
            hint.map_or(Ok(()), |hint| writeln!(text, "hint: {hint}"))
        }),
        (DiffFormat::Json, _) => terminal::stdout(|out| {
            serde_json::to_writer_pretty(&mut *out, &diff::json(reviews, facts))?;
            Ok(writeln!(out)?)
        }),
        (DiffFormat::Unified, None) => print_text(|text| write_unified(text, sides, reviews)),
        (DiffFormat::Unified, Some(program)) => show(program, sides, reviews),
    }
}

/// Warns of what the rules do not show.
fn warn_of_facts(facts: &ManifestFacts) {
    for line in &facts.assumptions {
        tracing::warn!("assumed, as the manifests do not have them: {line}");
    }
    if facts.hidden_objects > 0 {
        tracing::warn!("{}", diff::hidden_objects(facts.hidden_objects));
    }
}

fn print_text(write: impl FnOnce(&mut String) -> fmt::Result) -> anyhow::Result<()> {
    let mut text = String::new();
    write(&mut text)?;
    terminal::stdout(|out| Ok(out.write_all(text.as_bytes())?))
}

/// Writes the output of `diff -u`.
fn write_unified(text: &mut String, sides: &Sides, reviews: &[Review<'_>]) -> fmt::Result {
    for review in reviews {
        let (family, [left, right]) = (review.family, sides_as_text(sides, review));
        // The same paths as for a program, so that `patch -p0` finds the files.
        let [old, new] = NAMES.map(|side| format!("{side}/{family}"));
        diff::unified(text, (&old, &new), &left, &right)?;
    }
    Ok(())
}

/// Returns the live and the desired rules as text, limited to the selected service ports and
/// without what is not compared.
fn sides_as_text<'s>(sides: &'s Sides, review: &Review<'_>) -> [RulesetText<'s>; 2] {
    let family = review.family;
    let (left, right) = (sides.left.get(family), sides.right.get(family));
    let both = [
        RulesetText::of(left, right, right),
        RulesetText::of(right, left, right),
    ];
    let both = both.map(|text| text.compared(&review.not_compared, [left, right]));
    match &sides.chosen {
        Some(chosen) => both.map(|text| text.only(chosen)),
        None => both,
    }
}

/// Directories of the live and the desired rules; kubectl appends versions to these names.
const NAMES: [&str; 2] = ["LIVE", "DESIRED"];

/// Shows the two sides by a program. Its exit codes 0 and 1 are ignored: the difference is known.
///
/// # Errors
///
/// If the program does not exist, ends with more than 1 because it could not compare, or is ended
/// by a signal that ends this process as well.
fn show(program: &str, sides: &Sides, reviews: &[Review<'_>]) -> anyhow::Result<()> {
    let (name, parameters) = words(program)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let status = runtime.block_on(async {
        // From here on, signals end this process only after the directories are deleted.
        let interrupts = Interrupts::new()?;
        let directory =
            directory(sides, reviews).context("cannot write the files for the external diff")?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the user's program is not one of iptables'"
        )]
        let mut command = Command::new(&name);
        let started = command
            .args(parameters)
            .args(NAMES.map(|side| directory.path().join(side)))
            .spawn();
        let child =
            started.with_context(|| format!("KUBECTL_EXTERNAL_DIFF: cannot start `{name}`"))?;
        interrupts.wait(child).await
    })?;
    anyhow::ensure!(
        matches!(status.code(), Some(0 | 1)) || is_broken_pipe(status),
        "KUBECTL_EXTERNAL_DIFF: `{program}` ended with {status}"
    );
    Ok(())
}

/// Splits the program and its parameters.
fn words(program: &str) -> anyhow::Result<(String, Vec<String>)> {
    let words = shlex::split(program).with_context(|| {
        format!(
            "KUBECTL_EXTERNAL_DIFF: unclosed quote in `{program}`\n\
             hint: quote words as for a shell"
        )
    })?;
    let mut words = words.into_iter();
    let name = words.next().filter(|name| !name.is_empty());
    let name = name.with_context(|| format!("KUBECTL_EXTERNAL_DIFF: no program in `{program}`"))?;
    Ok((name, words.collect()))
}

/// Reports whether the reader of the output closed it; shells report the signal of the last
/// program of a script by its exit code.
fn is_broken_pipe(status: ExitStatus) -> bool {
    let signal = Signal::SIGPIPE as i32;
    status.signal() == Some(signal) || status.code() == Some(128 + signal)
}

/// Writes both sides to a directory that only this user can read: rules reveal the clients that
/// are allowed.
fn directory(sides: &Sides, reviews: &[Review<'_>]) -> io::Result<TempDir> {
    let directory = tempfile::Builder::new()
        .prefix("deltaproxy-diff-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()?;
    let paths = NAMES.map(|side| directory.path().join(side));
    for path in &paths {
        DirBuilder::new().mode(0o700).create(path)?;
    }
    for review in reviews {
        for (path, text) in paths.iter().zip(sides_as_text(sides, review)) {
            write_file(&path.join(review.family.as_str()), &text.to_string())?;
        }
    }
    Ok(directory)
}

fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file?.write_all(text.as_bytes())
}

/// Time that a program has to end after a signal.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);

/// Handlers of terminating signals while the user's program runs. Signals of the keyboard reach
/// the program as well, and a pager may ignore them; the other signals may be for this process
/// alone, so they are passed on.
struct Interrupts {
    /// Caught only to survive them.
    _keyboard: [unix::Signal; 2],
    terminate: unix::Signal,
    hangup: unix::Signal,
}

impl Interrupts {
    /// Installs the handlers.
    fn new() -> anyhow::Result<Self> {
        let caught = |kind| unix::signal(kind).context("cannot catch signals");
        Ok(Self {
            _keyboard: [
                caught(SignalKind::interrupt())?,
                caught(SignalKind::quit())?,
            ],
            terminate: caught(SignalKind::terminate())?,
            hangup: caught(SignalKind::hangup())?,
        })
    }

    /// Waits for the program, and ends it if this process has to end.
    ///
    /// # Errors
    ///
    /// If a signal ended both.
    async fn wait(mut self, mut child: Child) -> anyhow::Result<ExitStatus> {
        let signal = tokio::select! {
            status = child.wait() => return Ok(status?),
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.hangup.recv() => Signal::SIGHUP,
        };
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id {
            // The program may have received the signal as well and have ended.
            let _ = kill(Pid::from_raw(id), signal);
        }
        // A program that ignores the signal is left running, without its files.
        let _ = tokio::time::timeout(TERMINATION_GRACE, child.wait()).await;
        anyhow::bail!("KUBECTL_EXTERNAL_DIFF: ended by {signal}")
    }
}
