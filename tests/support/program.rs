//! Commands of the program, and what they print.

use std::path::Path;
use std::process::{Command, Stdio};

use super::netns::Netns;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_deltaproxy");

/// Result of a command.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Runs a command to its end, without the log filter of the tests.
    pub fn of(command: &mut Command) -> Self {
        Self::ended(command.env_remove("RUST_LOG").output().unwrap())
    }

    pub fn ended(output: std::process::Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// Returns what a command printed, which must succeed.
    #[track_caller]
    pub fn success(self) -> String {
        assert!(self.is_success(), "{self:#?}");
        self.stdout
    }

    /// Checks the exit code of a command and that it printed these texts on stderr.
    #[track_caller]
    pub fn fails(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for text in texts {
            assert!(self.stderr.contains(text), "no {text:?} in {self:#?}");
        }
    }
}

/// Returns a command without input, and without the kubeconfig of the user who runs the tests.
pub fn command(program: impl AsRef<Path>, args: &[&str]) -> Command {
    let mut command = Command::new(program.as_ref());
    command
        .args(args)
        .stdin(Stdio::null())
        .env_remove("RUST_LOG")
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent");
    command
}

/// Runs the program.
pub fn run(args: &[&str]) -> Ran {
    Ran::of(&mut command(PROGRAM, args))
}

/// Runs the program in a namespace.
pub fn run_in(netns: &Netns, args: &[&str]) -> Ran {
    Ran::of(netns.command(PROGRAM).args(args))
}

/// Returns a command in a namespace, with the programs of a folder first in its PATH.
pub fn with_programs(netns: &Netns, folder: &Path, program: impl AsRef<Path>) -> Command {
    let mut command = netns.command("env");
    let path = std::env::var("PATH").unwrap_or_default();
    command.arg(format!("PATH={}:{path}", folder.display()));
    command.arg(program.as_ref());
    command
}
