//! Every flag of `run`: that it does what it is for, or that it is said to do nothing.
//!
//! A flag without a row in the [`table`] fails, and so does a row that shows nothing. What flags
//! mean in all their values is tested beside the configuration, and what follows from it where it
//! does.

mod answers;
mod asked;
mod beside;
mod machine;
mod scene;
mod table;

use clap::{CommandFactory, Parser};
use deltaproxy::testing::config::{self, Cli, Command, Config, Unusable};

use crate::support::kube;
use crate::support::needs;
use crate::support::netns::Netns;
use scene::{Folder, rules, said};
use table::{Row, Shown, TABLE};

/// What the flags amount to, on the machine `node1`.
fn configured(flags: &[&str]) -> Result<Config, Unusable> {
    let typed = [&["deltaproxy", "run"], flags].concat();
    let Command::Run(args) = Cli::try_parse_from(typed).unwrap().command else {
        panic!("not `run`")
    };
    config::run(&args, None, "node1")
}

#[test]
fn every_flag_has_a_row() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand("run").unwrap();
    let mut flags: Vec<&str> = run
        .get_arguments()
        .map(|arg| arg.get_long().unwrap_or(arg.get_id().as_str()))
        .collect();
    let mut rows: Vec<&str> = TABLE.iter().map(|row| row.flag).collect();
    flags.sort_unstable();
    rows.sort_unstable();
    assert_eq!(flags, rows);
}

/// The rows of a kind.
fn each(mut show: impl FnMut(&Row, &str)) {
    for row in TABLE {
        show(row, &row.typed());
    }
}

#[test]
fn rules_follow_from_flags() {
    let folder = Folder::new();
    let rules = |row: &Row, typed: &[&str]| rules(&folder, &[row.beside, typed].concat());
    each(|row, typed| {
        let (text, is_there) = match row.shown {
            Shown::Rule(text) => (text, [true, false]),
            Shown::NoRule(text) => (text, [false, true]),
            _ => return,
        };
        let [with, without] = [rules(row, &[typed]), rules(row, &[])];
        assert_eq!(
            [&with, &without].map(|rules| rules.contains(text)),
            is_there,
            "{typed}: `{text}` in\n{with}\nand without it in\n{without}"
        );
    });
}

#[test]
fn what_has_no_effect_is_said_once() {
    each(|row, typed| {
        if let Shown::Nothing = row.shown {
            let lines = |flags: &[&str]| {
                let said = said(&[row.beside, flags].concat());
                let lines = said.lines().filter(|line| line.contains("without effect"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(lines(&[]), [] as [&str; 0], "without {typed}");
            let told = lines(&[typed]);
            assert_eq!(told.len(), 1, "{typed}: {told:#?}");
            let ending = format!("set, but without effect in this version: `--{}`", row.flag);
            assert!(told[0].ends_with(&ending), "{typed}: {told:#?}");
        }
    });
}

#[test]
fn what_is_deprecated_is_said_once() {
    each(|row, typed| {
        if let Shown::Deprecated(instead) = row.shown {
            let all = said(&[typed]);
            let told: Vec<_> = all.lines().filter(|l| l.contains("deprecated")).collect();
            assert_eq!(told.len(), 1, "{typed}: {all}");
            let text = format!("--{} is deprecated", row.flag);
            assert!(
                told[0].contains(&text) && told[0].contains(instead),
                "{all}"
            );
            assert!(!said(&[]).contains("deprecated"));
        }
    });
}

#[test]
fn modules_are_told() {
    let told = |row: &Row, typed: &[&str], tell: &dyn Fn(&Config) -> String| {
        tell(&configured(&[row.beside, typed].concat()).unwrap())
    };
    each(|row, typed| match row.shown {
        Shown::Told(tell, expected) => {
            assert_eq!(told(row, &[typed], &tell), expected, "{typed}");
            assert_ne!(told(row, &[], &tell), expected, "without {typed}");
        }
        Shown::Wanted(name, value) => {
            let wanted = |config: &Config| {
                let all = config.node.conntrack.desired_sysctls(2);
                let named = all.iter().find(|wanted| wanted.name == name);
                format!("{:?}", named.map(|wanted| wanted.value))
            };
            let expected = format!("Some({value})");
            assert_eq!(told(row, &[typed], &wanted), expected, "{typed}");
            assert_ne!(told(row, &[], &wanted), expected, "without {typed}");
        }
        _ => {}
    });
}

#[test]
fn the_kernel_is_set() {
    needs!(Kernel);
    each(|row, typed| {
        if let Shown::Setting(name, value) = row.shown {
            let held = |flags: &[&str]| {
                let netns = Netns::new("flags");
                machine::init(&netns, flags);
                netns.setting(name)
            };
            assert_eq!(held(&[typed]), value, "{typed}");
            assert_ne!(held(&[]), value, "without {typed}");
        }
    });
}

#[test]
fn kube_proxy_takes_and_refuses_the_same() {
    needs!(Upstream);
    let folder = Folder::new();
    let both = beside::Both {
        kube_proxy: kube::binary("kube-proxy").unwrap(),
        folder: folder.path(),
    };
    both.agree();
    both.differ();
}

#[test]
fn tests_of_flags_are_there() {
    each(|row, _| {
        if let Shown::Test(file, name) = row.shown {
            let path = format!("{}/tests/{file}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            for part in [format!("fn {name}("), format!("--{}", row.flag)] {
                assert!(text.contains(&part), "no `{part}` in {file}");
            }
        }
    });
}

#[test]
fn scenes_show_the_rest() {
    each(|row, _| {
        if let Shown::Scene(play) = row.shown {
            let folder = Folder::new();
            play(row, folder.path());
        }
    });
}
