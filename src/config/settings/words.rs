//! Words that flags take as values: tables of each word with its help and the choice that it stands
//! for.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::config::environment::ProgramName;
use crate::host::BackendChoice;
use crate::render;

/// Word that a flag takes as value, its help, and the choice that it stands for.
pub(in crate::config) type FlagWord<T> = (&'static str, &'static str, T);

/// Words of `--iptables-backend`.
pub(in crate::config) const BACKENDS: &[FlagWord<BackendChoice>] = &[
    (
        "auto",
        "Backend with kubelet's KUBE-IPTABLES-HINT, otherwise path",
        BackendChoice::Auto,
    ),
    (
        "path",
        "Binaries iptables and ip6tables in PATH, including wrappers",
        BackendChoice::Path,
    ),
    ("nft", "Binaries with the suffix -nft", BackendChoice::Nft),
    (
        "legacy",
        "Binaries with the suffix -legacy",
        BackendChoice::Legacy,
    ),
];

/// Words of `--service-dispatch`.
pub(in crate::config) const SERVICE_DISPATCHES: &[FlagWord<render::TreeThresholds>] = &[
    (
        "flat",
        "All in KUBE-SERVICES and KUBE-NODEPORTS, as kube-proxy",
        render::TreeThresholds::FLAT,
    ),
    (
        "tree",
        "A tree of chains, in which a packet traverses few rules",
        render::TreeThresholds::TREE,
    ),
    (
        "auto",
        "A tree in place of a chain above 300 rules, flat again at 150",
        render::TreeThresholds::AUTO,
    ),
];

/// Words of `--partial-restore`.
pub(in crate::config) const PARTIAL_RESTORES: &[FlagWord<render::PartialRestore>] = &[
    (
        "changed-chains",
        "Only chains whose rules changed",
        render::PartialRestore::ChangedChains,
    ),
    (
        "kep-3453",
        "All chains of changed Services and every shared chain, as in KEP-3453",
        render::PartialRestore::Kep3453,
    ),
];

/// Style of log lines, in both formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStyle {
    /// `klog` under the program name `kube-proxy`, `native` under any other.
    Auto,
    /// As kube-proxy writes.
    Klog,
    /// With level and module, and other keys in JSON.
    Native,
}

impl LogStyle {
    /// Reports whether a program of this name writes as kube-proxy does.
    pub(crate) fn is_klog(self, program: ProgramName) -> bool {
        match self {
            Self::Auto => program == ProgramName::KubeProxy,
            Self::Klog => true,
            Self::Native => false,
        }
    }
}

/// Words of `--log-style`.
pub(in crate::config) const LOG_STYLES: &[FlagWord<LogStyle>] = &[
    (
        "auto",
        "klog if the program is called kube-proxy, else native",
        LogStyle::Auto,
    ),
    (
        "klog",
        "As kube-proxy: text of klog, or JSON with its keys",
        LogStyle::Klog,
    ),
    (
        "native",
        "With level and module of each record",
        LogStyle::Native,
    ),
];

/// Returns a parser that accepts these words and keeps their text. Help and completions list them.
pub(super) fn texts<T>(words: &'static [FlagWord<T>]) -> PossibleValuesParser {
    let values = words.iter();
    PossibleValuesParser::new(values.map(|(text, help, _)| PossibleValue::new(*text).help(*help)))
}

/// Returns a parser that turns a word into its choice.
pub(in crate::config) fn choices<T: Copy + Send + Sync>(
    words: &'static [FlagWord<T>],
) -> impl TypedValueParser<Value = T> {
    texts(words).try_map(|text| choice(words, &text).ok_or("unknown word"))
}

/// Returns the choice that a word stands for, in any case; `None` for any other text.
pub(in crate::config) fn choice<T: Copy>(words: &[FlagWord<T>], text: &str) -> Option<T> {
    let mut words = words.iter();
    let (_, _, choice) = words.find(|(word, ..)| word.eq_ignore_ascii_case(text))?;
    Some(*choice)
}
