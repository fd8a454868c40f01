//! Completion scripts, and the names that they offer.

use std::collections::BTreeSet;

use clap::CommandFactory;
use clap_complete::Shell;

use super::snapshot::RuleSnapshot;
use super::terminal;
use crate::config::{Cli, NamesArg};
use crate::inspect::catalog::{Catalog, NamePattern, PortName};

/// Prints the completion script of a shell.
pub(super) fn script(shell: Shell) -> anyhow::Result<()> {
    let script = generated(shell);
    terminal::stdout(|out| Ok(out.write_all(script.as_bytes())?))
}

fn generated(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "deltaproxy", &mut script);
    let mut script = without_hidden(&String::from_utf8_lossy(&script), shell);
    if shell == Shell::Bash {
        script.push_str(NAMES_IN_BASH);
    }
    script
}

/// Removes hidden flags, which `clap_complete` offers. Bash has them in lists of words, other
/// shells have an entry for each, which may take several lines.
fn without_hidden(script: &str, shell: Shell) -> String {
    let program = Cli::command();
    let args = program
        .get_subcommands()
        .flat_map(clap::Command::get_arguments);
    let hidden = args.filter(|arg| arg.is_hide_set());
    let hidden: BTreeSet<&str> = hidden.filter_map(clap::Arg::get_long).collect();
    if shell == Shell::Bash {
        let remove = |script: String, flag| script.replace(&format!(" --{flag} "), " ");
        return hidden.into_iter().fold(script.to_owned(), remove);
    }
    let is_start = |line: &str| match shell {
        Shell::Zsh => line.starts_with(['\'', '"', '&']),
        Shell::Fish => line.starts_with("complete "),
        _ => true,
    };
    let names_hidden = |line: &str| {
        let text = |flag: &str| match shell {
            Shell::Zsh => line.starts_with(&format!("'--{flag}=")),
            Shell::Fish => line.contains(&format!(" -l {flag} ")),
            Shell::Elvish => line.contains(&format!("cand --{flag} ")),
            _ => line.contains(&format!("::new('--{flag}'")),
        };
        hidden.iter().any(|flag| text(flag))
    };
    let mut is_removed = false;
    let kept = script.split_inclusive('\n').filter(|line| {
        is_removed = names_hidden(line) || (is_removed && !is_start(line));
        !is_removed
    });
    kept.collect()
}

/// Prints the names that completion scripts offer, one on each line, sorted. The shell matches
/// them against what is typed.
pub(super) fn names(
    snapshot: &RuleSnapshot,
    kind: NamesArg,
    namespace: Option<&str>,
) -> anyhow::Result<()> {
    let families = snapshot.rules.as_ref().into_pairs().into_iter();
    let mut names = BTreeSet::new();
    for (_, rules) in families {
        let catalog = Catalog::read(rules);
        names.extend(
            catalog
                .ports
                .keys()
                .filter_map(|port| name(port, kind, namespace)),
        );
    }
    // A comment can hold any text; a shell only gets valid names of Services.
    names.retain(|name| name.parse::<NamePattern>().is_ok());
    terminal::stdout(|out| Ok(names.iter().try_for_each(|name| writeln!(out, "{name}"))?))
}

fn name(port: &PortName, kind: NamesArg, namespace: Option<&str>) -> Option<String> {
    let own = port.namespace();
    match (kind, namespace) {
        (NamesArg::Namespaces, _) => Some(own.to_owned()),
        (NamesArg::Services, None) => Some(format!("{own}/{}", port.service())),
        (NamesArg::Services, Some(wanted)) => (wanted == own).then(|| port.service().to_owned()),
    }
}

/// Completes names by running the program with the words before the cursor and `--names`.
///
/// - Those words select the rules. Where a value other than a name is expected, they are not a
///   valid command line, so that nothing is printed and completed.
/// - The part after the slash may be typed alone. Readline replaces it by the common beginning of
///   the candidates; if that is empty, a blank among them keeps it.
/// - Names come from untrusted rules: nothing may expand them, as `compgen -W` does.
const NAMES_IN_BASH: &str = r#"
_deltaproxy_or_names() {
    _deltaproxy "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" words=() last=-1 what=services word names=()
    [[ "${COMP_WORDS[1]}" =~ ^(services|explain|render)$ && "$COMP_CWORD" -gt 1 ]] || return 0
    [[ "$cur" != -* ]] || return 0
    [[ "$cur" != "=" ]] || cur=""
    for word in "${COMP_WORDS[@]:0:COMP_CWORD}" ${COMP_WORDS[COMP_CWORD]/#[!=]*/}; do
        # `--from-save=FILE` comes as three words.
        if [[ "$last" -ge 0 && ( "$word" == "=" || "${words[last]}" == -*= ) ]]; then
            words[last]+="$word"
        else
            words[++last]="$word"
        fi
    done
    case "${words[last]}" in
        -n | -n= | --namespace | --namespace=) what=namespaces; unset "words[last]" ;;
    esac
    while IFS= read -r word; do names+=("$word"); done < <(
        "${words[@]}" --names="$what" 2>/dev/null </dev/null
    )
    [[ "${#names[@]}" -gt 0 ]] || return 0
    COMPREPLY=()
    for word in "${names[@]}"; do
        [[ "$word" != "$cur"* ]] || COMPREPLY+=("$word")
    done
    if [[ "${#COMPREPLY[@]}" -eq 0 && -n "$cur" && "$cur" != */* ]]; then
        for word in "${names[@]}"; do
            [[ "$word" != */"$cur"* ]] || COMPREPLY+=("$word")
        done
        for word in "${COMPREPLY[@]}"; do
            [[ "${word%%/*}" == "${COMPREPLY[0]%%/*}" ]] || { COMPREPLY+=(" "); break; }
        done
    fi
}
complete -F _deltaproxy_or_names -o bashdefault -o default deltaproxy kubectl-deltaproxy
"#;

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of kube-proxy until 1.36, and that of the scripts.
    #[test]
    fn hidden_flags_are_not_offered() {
        for shell in [
            Shell::Bash,
            Shell::Zsh,
            Shell::Fish,
            Shell::Elvish,
            Shell::PowerShell,
        ] {
            let script = generated(shell);
            let is_offered = |flag: &str| {
                let spelled = [
                    format!(" --{flag} "),
                    format!("'--{flag}="),
                    format!(" -l {flag} "),
                    format!("'--{flag}'"),
                ];
                spelled.iter().any(|flag| script.contains(flag))
            };
            assert!(
                is_offered("cluster-cidr") && is_offered("address"),
                "{shell}"
            );
            for flag in ["boot-id-file", "machine-id-file", "names"] {
                assert!(!is_offered(flag), "{shell}: --{flag}");
            }
            // The rest of an entry of several lines.
            assert!(!script.contains("Names of namespaces"), "{shell}");
        }
    }
}
