//! Words that flags take as values: tables of each word with its help and the choice that it stands
//! for.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::config::environment::ProgramName;
use crate::host::BackendChoice;
use crate::render;

/// Word that a flag takes as value, its help, and the choice that it stands for.
#[derive(Debug, Clone, Copy)]
pub(in crate::config) struct FlagWord<T: 'static> {
    pub text: &'static str,
    pub help: &'static str,
    pub choice: T,
}

/// Table of words of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum WordTable {
    /// [`BACKENDS`].
    Backends,
    /// [`PARTIAL_RESTORES`].
    PartialRestores,
    /// [`SERVICE_DISPATCHES`].
    ServiceDispatches,
    /// [`RELOAD_TRIGGERS`].
    ReloadTriggers,
    /// [`LOG_STYLES`].
    LogStyles,
}

impl WordTable {
    /// Returns the name that stands for a word in help.
    pub(super) const fn value_name(self) -> &'static str {
        match self {
            Self::Backends => "BACKEND",
            Self::PartialRestores => "SHAPE",
            Self::ServiceDispatches => "MODE",
            Self::ReloadTriggers => "WHEN",
            Self::LogStyles => "STYLE",
        }
    }

    /// Returns a parser that accepts these words and keeps their text.
    pub(super) fn texts(self) -> PossibleValuesParser {
        match self {
            Self::Backends => texts(BACKENDS),
            Self::PartialRestores => texts(PARTIAL_RESTORES),
            Self::ServiceDispatches => texts(SERVICE_DISPATCHES),
            Self::ReloadTriggers => texts(RELOAD_TRIGGERS),
            Self::LogStyles => texts(LOG_STYLES),
        }
    }
}

/// Words of `--iptables-backend`.
pub(in crate::config) const BACKENDS: &[FlagWord<BackendChoice>] = &[
    FlagWord {
        text: "auto",
        help: "Backend with kubelet's KUBE-IPTABLES-HINT, otherwise path",
        choice: BackendChoice::Auto,
    },
    FlagWord {
        text: "path",
        help: "Binaries iptables and ip6tables in PATH, including wrappers",
        choice: BackendChoice::Path,
    },
    FlagWord {
        text: "nft",
        help: "Binaries with the suffix -nft",
        choice: BackendChoice::Nft,
    },
    FlagWord {
        text: "legacy",
        help: "Binaries with the suffix -legacy",
        choice: BackendChoice::Legacy,
    },
];

/// Words of `--service-dispatch`.
pub(in crate::config) const SERVICE_DISPATCHES: &[FlagWord<render::TreeThresholds>] = &[
    FlagWord {
        text: "flat",
        help: "All in KUBE-SERVICES and KUBE-NODEPORTS, as kube-proxy",
        choice: render::TreeThresholds::FLAT,
    },
    FlagWord {
        text: "tree",
        help: "A tree of chains, in which a packet traverses few rules",
        choice: render::TreeThresholds::TREE,
    },
    FlagWord {
        text: "auto",
        help: "A tree in place of a chain above 300 rules, flat again at 150",
        choice: render::TreeThresholds::AUTO,
    },
];

/// Words of `--partial-restore`.
pub(in crate::config) const PARTIAL_RESTORES: &[FlagWord<render::PartialRestore>] = &[
    FlagWord {
        text: "changed-chains",
        help: "Only chains whose rules changed",
        choice: render::PartialRestore::ChangedChains,
    },
    FlagWord {
        text: "kep-3453",
        help: "All chains of changed Services and every shared chain, as in KEP-3453",
        choice: render::PartialRestore::Kep3453,
    },
];

/// Changes of the configuration file that end the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum ReloadTrigger {
    /// Only another configuration that is written into the file itself, as with kube-proxy.
    InPlace,
    /// Every valid change.
    AnyChange,
}

/// Words of `--config-reload`.
pub(in crate::config) const RELOAD_TRIGGERS: &[FlagWord<ReloadTrigger>] = &[
    FlagWord {
        text: "in-place",
        help: "A write into the file; a replaced file is only logged",
        choice: ReloadTrigger::InPlace,
    },
    FlagWord {
        text: "exit",
        help: "Every valid change, after a random delay",
        choice: ReloadTrigger::AnyChange,
    },
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
    FlagWord {
        text: "auto",
        help: "klog if the program is called kube-proxy, else native",
        choice: LogStyle::Auto,
    },
    FlagWord {
        text: "klog",
        help: "As kube-proxy: text of klog, or JSON with its keys",
        choice: LogStyle::Klog,
    },
    FlagWord {
        text: "native",
        help: "With level and module of each record",
        choice: LogStyle::Native,
    },
];

/// Returns a parser that accepts these words and keeps their text. Help and completions list them.
fn texts<T>(words: &'static [FlagWord<T>]) -> PossibleValuesParser {
    let values = words.iter();
    PossibleValuesParser::new(values.map(|word| PossibleValue::new(word.text).help(word.help)))
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
    let word = words.find(|word| word.text.eq_ignore_ascii_case(text))?;
    Some(word.choice)
}
