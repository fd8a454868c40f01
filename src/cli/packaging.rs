//! `completions` and `man`: what packagers ask for.
//!
//! Apart because both are made from the definition of the flags, and nothing else is.

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use super::output;
use crate::config::Cli;

/// Prints the completion script of a shell.
pub(super) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "deltaproxy", &mut script);
    if shell == Shell::Bash {
        // The flag that the script itself uses is hidden, which bash is not told.
        let plain = String::from_utf8_lossy(&script).replace(" --names ", " ");
        script = [plain.as_bytes(), NAMES_IN_BASH.as_bytes()].concat();
    }
    output::stdout(|out| Ok(out.write_all(&script)?))
}

/// Prints the page of a command, or of the program.
pub(super) fn manual(command: Option<&str>) -> anyhow::Result<()> {
    let mut program = Cli::command();
    // Gives the commands the flags that they inherit, and their full names.
    program.build();
    let page = match command.and_then(|name| program.find_subcommand(name)) {
        Some(command) => {
            Man::new(command.clone()).title(format!("deltaproxy-{}", command.get_name()))
        }
        None => Man::new(program),
    };
    output::stdout(|out| Ok(page.render(out)?))
}

/// Where a name may stand, the program itself is asked for names: the words before the cursor say
/// which rules are meant, and where something else is expected, they are no command line, so that
/// nothing is answered. The part behind the slash may be typed alone; readline keeps it if several
/// fit that begin alike in nothing, which the blank sees to. Names come from whoever wrote the
/// rules: nothing may expand them, as `compgen -W` does.
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
