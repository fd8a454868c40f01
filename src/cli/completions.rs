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
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "deltaproxy", &mut script);
    if shell == Shell::Bash {
        // The script itself uses this flag, but `clap_complete` offers it although it is hidden.
        let plain = String::from_utf8_lossy(&script).replace(" --names ", " ");
        script = [plain.as_bytes(), NAMES_IN_BASH.as_bytes()].concat();
    }
    terminal::stdout(|out| Ok(out.write_all(&script)?))
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
