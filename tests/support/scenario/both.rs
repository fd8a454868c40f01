//! The fake kernel and, optionally, a real one with the same input.

use std::cell::RefCell;
use std::process::Stdio;
use std::time::Duration;

use deltaproxy::testing::host::{
    CounterError, Exec, Fake, Fault, Iptables, ListedChains, ProgramExit, RestoreError, Restored,
    RunError,
};
use deltaproxy::testing::rules::{Comparison, Payload, RuleSet, Table, Text};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// What a scenario runs on.
#[derive(Debug, Default)]
pub(crate) struct Both {
    /// Decides what the scenario sees.
    pub(crate) fake: Fake,
    /// Must agree.
    pub(crate) real: Option<Exec>,
    disagreements: RefCell<Vec<String>>,
}

impl Both {
    /// With a real kernel: that of the network namespace that this thread is in.
    pub(crate) fn with(real: Exec) -> Self {
        Self {
            real: Some(real),
            ..Self::default()
        }
    }

    /// Lets the next call fail, without the real kernel being asked.
    pub(crate) fn inject(&self, fault: Fault) {
        self.fake.inject(fault);
    }

    /// What the two disagreed about so far.
    pub(crate) async fn check(&self) -> Result<(), String> {
        if let Some(disagreement) = self.disagreements.borrow().first() {
            return Err(disagreement.clone());
        }
        let Some(real) = &self.real else {
            return Ok(());
        };
        let mut saved = String::new();
        for table in Table::ALL {
            let text = real.saved(table).await.map_err(|error| error.to_string())?;
            saved.push_str(&text);
        }
        let held = RuleSet::parse(&saved).map_err(|error| format!("{error} in\n{saved}"))?;
        let difference = Comparison::STRICT.compare(&self.fake.rules(), &held);
        if difference.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "the fake kernel (left) and the real one (right) differ\n{difference}"
            ))
        }
    }

    fn disagree(&self, message: String) {
        self.disagreements.borrow_mut().push(message);
    }
}

impl Iptables for Both {
    async fn restore(
        &self,
        payload: &mut dyn Payload,
        deadline: Option<Duration>,
    ) -> Result<Restored, RestoreError> {
        let mut bytes = Vec::new();
        while payload.write_next(&mut bytes) {}
        let faked = self
            .fake
            .restore(&mut Text::new(bytes.clone()), deadline)
            .await;
        let Some(real) = &self.real else {
            return faked;
        };
        match &faked {
            Err(RestoreError::Failed {
                exit: ProgramExit::Signaled(_),
                ..
            }) => return faked,
            // The other program got the lock behind so many tables.
            Err(RestoreError::Locked { committed, .. }) => {
                let text = String::from_utf8_lossy(&bytes);
                let tables = text.split_inclusive("COMMIT\n").take(*committed);
                for table in tables {
                    real.restore(&mut Text::new(table), deadline).await?;
                }
                return faked;
            }
            _ => {}
        }
        let tested = dry_run(real, &bytes).await;
        let restored = real.restore(&mut Text::new(bytes.clone()), deadline).await;
        if restored.is_ok()
            && let Err(error) = tested
        {
            self.disagree(format!("`--test` said {error}"));
        }
        if faked.is_ok() != restored.is_ok() {
            let text = String::from_utf8_lossy(&bytes);
            self.disagree(format!(
                "the fake kernel said {faked:?}, the real one {restored:?} to\n{text}"
            ));
        }
        restored
    }

    async fn save(&self, table: Table, each: &mut dyn FnMut(&str)) -> Result<(), RunError> {
        let faked = self.fake.saved(table).await?;
        if let Some(real) = &self.real {
            return real.save(table, each).await;
        }
        faked.lines().for_each(each);
        Ok(())
    }

    async fn list(&self, table: Table, chains: &[&str]) -> Result<ListedChains, RunError> {
        self.fake.list(table, chains).await
    }

    async fn has(&self, table: Table, chain: &str, rule: &str) -> Result<bool, RunError> {
        match &self.real {
            Some(real) => real.has(table, chain, rule).await,
            None => self.fake.has(table, chain, rule).await,
        }
    }

    async fn make_counter(&self, name: &str) -> Result<(), CounterError> {
        let faked = self.fake.make_counter(name).await;
        match &self.real {
            Some(real) if faked.is_ok() => real.make_counter(name).await,
            _ => faked,
        }
    }
}

/// What `iptables-restore --test` says of the payload.
async fn dry_run(real: &Exec, payload: &[u8]) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "production never tests payloads")]
    let mut command = Command::new(&real.binaries().restore);
    command.args(["-w", "5", "--test", "--noflush", "--counters"]);
    let piped = Stdio::piped;
    command.stdin(piped()).stdout(piped()).stderr(piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    let written = stdin.write_all(payload).await;
    drop(stdin);
    let output = child.wait_with_output().await;
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match (written, output.status.success()) {
        (Ok(()), true) => Ok(()),
        (Err(error), _) => Err(error.to_string()),
        (_, false) => Err(said),
    }
}
