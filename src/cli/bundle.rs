//! `bundle`: packs what a support case about this node needs into one file.
//!
//! Nothing that holds credentials is read: no kubeconfig, no configuration file but for the address
//! of the daemon, no environment. Credentials in URLs and tokens in the texts of other
//! programs are replaced.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use tempfile::NamedTempFile;

use super::arguments::{daemon_address, moment, read_file};
use super::daemon;
use super::redact::Redaction;
use super::runtime::runtime;
use super::terminal::{self, Progress, escaped};
use crate::config::{BundleArgs, PastTime, VERSION, environment};
use crate::history::{FAILED_PAYLOADS, HistoryFiles};
use crate::host::{BackendChoice, Binaries};
use crate::net::IpFamily;

/// Pages of the daemon, and the names of their files.
const PAGES: [(&str, &str); 5] = [
    (STATUS, "daemon/status.json"),
    ("/rules", "daemon/rules.txt"),
    ("/metrics", "daemon/metrics.txt"),
    ("/configz", "daemon/configz.json"),
    ("/flagz", "daemon/flagz.txt"),
];

/// Page with the name of the node, by which others are redacted: it is the first.
const STATUS: &str = "/status";

/// Files of the kernel, and the names of their copies.
const KERNEL_FILES: [(&str, &str); 6] = [
    ("/proc/version", "kernel/version.txt"),
    ("/proc/modules", "kernel/modules.txt"),
    ("/proc/net/ip_tables_names", "kernel/ip_tables_names.txt"),
    ("/proc/net/ip6_tables_names", "kernel/ip6_tables_names.txt"),
    (
        "/proc/sys/net/netfilter/nf_conntrack_count",
        "kernel/nf_conntrack_count.txt",
    ),
    (
        "/proc/sys/net/netfilter/nf_conntrack_max",
        "kernel/nf_conntrack_max.txt",
    ),
];

/// Text in place of a secret.
const REMOVED: &str = "REMOVED";

/// Writes the bundle, and a warning for each part that is missing.
///
/// # Errors
///
/// The file exists, or cannot be written, or a flag is invalid.
pub(super) fn bundle(args: &BundleArgs) -> anyhow::Result<()> {
    terminal::install_quiet_log()?;
    let now = moment(PastTime::Ago(Duration::ZERO));
    let host = environment::host_name();
    let redaction = args.redact.then(|| Redaction::new(vec![host.clone()]));
    let shown = if args.redact { "node" } else { &host };
    let name = format!("deltaproxy-{shown}-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let path = args.output.clone();
    let path = path.unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    anyhow::ensure!(
        args.force || !path.exists(),
        "`{}` exists\nhint: give another name to -o, or --force to replace it",
        path.display()
    );
    let config = read_file(args.config.as_deref())?;
    let daemon = daemon_address(config.as_ref(), &args.daemon)?;
    let progress = Progress::start("reading the state of this node");
    let written = || format!("cannot write `{}`", path.display());
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
    let archive = GzEncoder::new(file.with_context(written)?, Compression::default());
    let mut bundle = Bundle {
        archive: tar::Builder::new(archive),
        folder: name,
        at: now,
        errors: Vec::new(),
        redaction,
    };
    bundle.add_programs().with_context(written)?;
    for (page, name) in PAGES {
        let text = match daemon {
            Some(address) => daemon::get(address, page).map_err(anyhow::Error::from),
            None => Err(anyhow::anyhow!("the metrics port is disabled")),
        };
        if let (STATUS, Ok(text), Some(redaction)) = (page, &text, &mut bundle.redaction) {
            redaction.add_node_of(text);
        }
        bundle.add_text(name, text).with_context(written)?;
    }
    for (file, name) in KERNEL_FILES {
        let text = fs::read_to_string(file).with_context(|| file.to_owned());
        bundle.add_text(name, text).with_context(written)?;
    }
    if let Some(folder) = &args.state_dir {
        bundle.add_history(folder).with_context(written)?;
    }
    drop(progress);
    let errors = bundle.errors.join("\n");
    let added = bundle.add("errors.txt", errors.as_bytes());
    added.with_context(written)?;
    let file = bundle.finish().with_context(written)?;
    if args.force {
        file.persist(&path).with_context(written)?;
    } else {
        file.persist_noclobber(&path).with_context(written)?;
    }
    terminal::print(escaped(&format!("{}\n", path.display())).as_bytes())
}

/// Archive that is written.
struct Bundle {
    archive: tar::Builder<GzEncoder<NamedTempFile>>,
    folder: String,
    at: Timestamp,
    /// Parts that are missing, with their causes.
    errors: Vec<String>,
    /// With `--redact`.
    redaction: Option<Redaction>,
}

impl Bundle {
    /// Adds the versions of the programs, and the rules of both backends and families.
    fn add_programs(&mut self) -> anyhow::Result<()> {
        let runtime = runtime()?;
        let mut versions = vec![format!("deltaproxy {VERSION}")];
        for (choice, backend) in [
            (BackendChoice::Nft, "nft"),
            (BackendChoice::Legacy, "legacy"),
        ] {
            for family in IpFamily::ALL {
                let saved = runtime.block_on(async {
                    let binaries = Binaries::discover(choice, family).await?;
                    let rules = binaries.save_all().await;
                    anyhow::Ok((binaries.version, rules?))
                });
                let rules = saved.map(|(version, rules)| {
                    versions.push(format!("iptables {family} {backend} {version}"));
                    rules
                });
                let name = format!("rules/{backend}-{family}.txt").to_lowercase();
                self.add_text(&name, rules)?;
            }
        }
        Ok(self.add_text("versions.txt", Ok(versions.join("\n")))?)
    }

    /// Adds the records, the checkpoints and the failed payloads in a folder.
    fn add_history(&mut self, folder: &Path) -> io::Result<()> {
        let paths = match HistoryFiles::find(folder) {
            Ok(files) => files.into_paths(),
            Err(error) => {
                let path = folder.display();
                self.errors.push(format!("history: `{path}`: {error}"));
                return Ok(());
            }
        };
        let failed = FAILED_PAYLOADS.pairs().map(|(_, name)| folder.join(name));
        let failed = failed.filter(|path| path.exists());
        for path in paths.into_iter().chain(failed) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("history/{name}");
            let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
            let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
            match fs::read(&path) {
                Ok(mut bytes) if is_file => {
                    if let Some(redaction) = &mut self.redaction {
                        bytes = redacted(redaction, &bytes, is_compressed)?;
                    }
                    self.add(&name, &bytes)?;
                }
                Ok(_) => self.missing(&name, "not a file"),
                // The daemon deletes the oldest ones.
                Err(error) => self.missing(&name, &error.to_string()),
            }
        }
        Ok(())
    }

    /// Adds a text without secrets, or notes the reason that it is missing.
    fn add_text(&mut self, name: &str, text: anyhow::Result<String>) -> io::Result<()> {
        match text {
            Ok(text) => {
                let text = without_secrets(&text);
                let text = self.redact(text);
                self.add(name, text.as_bytes())
            }
            Err(error) => {
                self.missing(name, &without_secrets(&format!("{error:#}")));
                Ok(())
            }
        }
    }

    fn missing(&mut self, name: &str, reason: &str) {
        let problem = escaped(&format!("{name}: {reason}")).replace('\n', "; ");
        tracing::warn!("{problem}");
        let problem = self.redact(problem);
        self.errors.push(problem);
    }

    fn redact(&mut self, text: String) -> String {
        match &mut self.redaction {
            Some(redaction) => redaction.apply(&text),
            None => text,
        }
    }

    fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o600);
        header.set_size(content.len() as u64);
        header.set_mtime(self.at.as_second().unsigned_abs());
        let path = format!("{}/{name}", self.folder);
        self.archive.append_data(&mut header, path, content)
    }

    fn finish(self) -> io::Result<NamedTempFile> {
        let mut file = self.archive.into_inner()?.finish()?;
        file.flush()?;
        Ok(file)
    }
}

/// Returns a file of the history without names and addresses. The end of a compressed one may not
/// be written yet.
fn redacted(redaction: &mut Redaction, bytes: &[u8], is_compressed: bool) -> io::Result<Vec<u8>> {
    if !is_compressed {
        let text = String::from_utf8_lossy(bytes);
        return Ok(redaction.apply(&text).into_bytes());
    }
    let mut read = Vec::new();
    let _ = MultiGzDecoder::new(bytes).read_to_end(&mut read);
    let text = redaction.apply(&String::from_utf8_lossy(&read));
    let mut file = GzEncoder::new(Vec::new(), Compression::fast());
    file.write_all(text.as_bytes())?;
    file.finish()
}

/// Replaces credentials in URLs, words after `Bearer`, and JSON Web Tokens.
fn without_secrets(text: &str) -> String {
    let is_end = |byte: char| byte.is_whitespace() || "\"'`,;<>()[]{}\\".contains(byte);
    let mut kept = String::with_capacity(text.len());
    let mut is_after_bearer = false;
    for piece in text.split_inclusive(is_end) {
        let word = piece.strip_suffix(is_end).unwrap_or(piece);
        let end = piece.get(word.len()..).unwrap_or_default();
        let is_token = word.contains("eyJ") && word.matches('.').count() >= 2;
        let authority = word.find("://").map(|at| at + 3);
        let credentials = authority.and_then(|start| {
            let rest = word.get(start..)?;
            let host = rest.split(['/', '?', '#']).next()?;
            Some((start, start + host.rfind('@')?))
        });
        if word.is_empty() {
            // Several ends in a row do not separate `Bearer` from its token.
        } else if is_token || is_after_bearer {
            kept.push_str(REMOVED);
        } else if let Some((start, at)) = credentials {
            kept.push_str(word.get(..start).unwrap_or_default());
            kept.push_str(REMOVED);
            kept.push_str(word.get(at..).unwrap_or_default());
        } else {
            kept.push_str(word);
        }
        if !word.is_empty() {
            is_after_bearer = word.eq_ignore_ascii_case("bearer");
        }
        kept.push_str(end);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_removed_from_texts() {
        for (text, expected) in [
            (
                "get https://admin:pa%40ss@api:6443/x failed",
                "get https://REMOVED@api:6443/x failed",
            ),
            (
                "Authorization: Bearer  s3cret, next",
                "Authorization: Bearer  REMOVED, next",
            ),
            ("--token=eyJhbG.eyJzdWI.c2ln\n", "REMOVED\n"),
            (
                "-A KUBE-SERVICES -d 10.96.0.1/32 --comment \"a/b:p\"",
                "-A KUBE-SERVICES -d 10.96.0.1/32 --comment \"a/b:p\"",
            ),
            ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ] {
            assert_eq!(without_secrets(text), expected);
        }
    }
}
