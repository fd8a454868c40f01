//! `shadow-report`: shows what the daemon in shadow mode on this node has found, or those of all
//! nodes together.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;

use crate::cli::cluster::{self, NodeProblem};
use crate::cli::daemon;
use crate::cli::terminal::{self, escaped};
use crate::config::{self, OutputArg, ShadowReportArgs, environment};
use crate::status::{LagHistogram, ShadowDifference, ShadowDocument, bytes};
use crate::text::counted;
use crate::watch::api::{PodRole, ProxyPod};

/// Maximum differences in the text.
const MOST_LINES: usize = 20;

/// Prints the report. Returns whether no difference affects packets.
///
/// # Errors
///
/// No daemon in shadow mode answers; of all nodes, some do not.
pub(in crate::cli) fn of_shadow(args: &ShadowReportArgs) -> anyhow::Result<bool> {
    terminal::install_quiet_log()?;
    if args.all_nodes || args.node.is_some() {
        return of_cluster(args);
    }
    let typed = args.metrics_bind_address.as_deref();
    let typed = typed.unwrap_or(config::SHADOW_METRICS);
    let Some(bind) = config::metrics_address(None, Some(typed))? else {
        anyhow::bail!("--metrics-bind-address: must be an address");
    };
    let address = daemon::loopback_of(bind);
    let no_report = |reason: &dyn fmt::Display| no_report(address, reason);
    let page = daemon::get(address, "/shadow").map_err(|reason| no_report(&reason))?;
    let document: ShadowDocument = daemon::document(&page).map_err(|error| no_report(&error))?;
    let report = ShadowReport::of([&document]);
    terminal::print(match args.output.format {
        OutputArg::Json => escaped(&page).into_owned(),
        OutputArg::Text => report.text(),
    })?;
    report.verdict()
}

/// Prints the report of one other node or of all.
fn of_cluster(args: &ShadowReportArgs) -> anyhow::Result<bool> {
    let options = args.cluster.api_options(environment::kubeconfigs);
    let (mut documents, mut silent) = cluster::block_on(options, async |cluster| {
        let node = args.node.as_deref();
        let pods = cluster.pods(PodRole::Shadow, node).await?;
        let (mut documents, mut silent) = (Vec::new(), Vec::new());
        let ask = async |pod| cluster.document(pod, "/shadow").await;
        let answered = |pod: &ProxyPod, answer| match document_of(answer) {
            Ok(document) => documents.push(document),
            Err(problem) => silent.push((pod.node.clone(), problem)),
        };
        cluster::for_each_bounded(&pods, ask, answered).await;
        Ok((documents, silent))
    })?;
    documents.sort_by(|one, other| one.node.cmp(&other.node));
    silent.sort();
    let report = ShadowReport::of(&documents);
    terminal::print(match args.output.format {
        OutputArg::Json => format!("{:#}\n", serde_json::json!({"nodes": documents})),
        OutputArg::Text => report.text(),
    })?;
    if let Some((node, problem)) = silent.first() {
        let total = silent.len() + documents.len();
        let count = silent.len();
        anyhow::bail!("{count} of {total} nodes did not answer: {node}: {problem}");
    }
    report.verdict()
}

fn document_of(answer: Result<Option<String>, NodeProblem>) -> Result<ShadowDocument, String> {
    match answer {
        Ok(Some(page)) => {
            daemon::document(&page).map_err(|_| "the page is not of deltaproxy".to_owned())
        }
        Ok(None) => Err("the Pod is not of deltaproxy".to_owned()),
        Err(problem) => Err(problem.problem),
    }
}

fn no_report(address: SocketAddr, reason: impl fmt::Display) -> anyhow::Error {
    anyhow::anyhow!(
        "no report of shadow mode at {address}: {reason}\n\
         hint: check that `deltaproxy run --shadow` runs on this node; if its metrics port is \
         another one, set --metrics-bind-address; --all-nodes asks all nodes"
    )
}

/// Sums over all nodes and families.
#[derive(Debug, Default)]
struct ShadowReport<'a> {
    nodes: usize,
    kube_proxy: LagHistogram,
    own: LagHistogram,
    unmeasured: u64,
    own_bytes: u64,
    /// Bytes of deltaproxy and at least of kube-proxy, of the families that have both; `None` if
    /// none has.
    both_bytes: Option<(u64, u64)>,
    /// Nodes and families of which no reading has succeeded: nothing is compared.
    unread: Vec<(&'a str, &'a str)>,
    /// Nodes and families with rules of a proxy in another backend, which is the last one.
    other_backends: Vec<(&'a str, &'a str, &'a str)>,
    affecting: u64,
    all_differences: u64,
    waiting: u64,
    differences: Vec<(&'a str, &'a str, &'a ShadowDifference)>,
}

impl<'a> ShadowReport<'a> {
    fn of(documents: impl IntoIterator<Item = &'a ShadowDocument>) -> Self {
        let mut report = Self::default();
        for document in documents {
            report.nodes += 1;
            for family in &document.families {
                report.kube_proxy.merge(&family.kube_proxy_lag);
                report.own.merge(&family.own_lag);
                report.unmeasured += family.unmeasured_changes;
                report.own_bytes += family.own_payloads.bytes;
                if let Some(bytes) = family.kube_proxy_bytes_at_least {
                    let (own, kube_proxy) = report.both_bytes.get_or_insert_default();
                    *own += family.own_payloads.bytes;
                    *kube_proxy += bytes;
                }
                if family.readings.count == family.readings.failed {
                    report.unread.push((&document.node, &family.family));
                }
                if !family.other_backend.is_empty() {
                    let (node, other) = (&document.node, &family.other_backend);
                    report.other_backends.push((node, &family.family, other));
                }
                report.affecting += family.differences_affecting_packets;
                report.all_differences += family.difference_count;
                report.waiting += family.waiting_services;
                let found = family.differences.iter();
                let found = found.map(|one| (document.node.as_str(), family.family.as_str(), one));
                report.differences.extend(found);
            }
        }
        report
    }

    /// Reports whether no difference affects packets.
    ///
    /// # Errors
    ///
    /// Rules were not read, so that nothing is known of them.
    fn verdict(&self) -> anyhow::Result<bool> {
        anyhow::ensure!(
            self.affecting > 0 || self.unread.is_empty(),
            "rules were not compared\n\
             hint: the log of the shadow says why; a shadow that has just started reads them soon"
        );
        Ok(self.affecting == 0)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        writeln!(
            text,
            "{}, {}, {} that affect packets",
            counted(self.nodes, "node"),
            counted(self.kube_proxy.count, "change"),
            counted(self.affecting, "difference"),
        )?;
        writeln!(text, "kube-proxy:  {}", lags(&self.kube_proxy))?;
        if self.unmeasured > 0 {
            let changes = counted(self.unmeasured, "more change");
            writeln!(text, "             {changes} not measured")?;
        }
        writeln!(
            text,
            "deltaproxy:  {}, without the restore",
            lags(&self.own)
        )?;
        write!(
            text,
            "payloads:    {} would have been written",
            bytes(self.own_bytes)
        )?;
        match self.both_bytes {
            Some((own, kube_proxy)) if own == self.own_bytes => {
                writeln!(text, " instead of at least {}", bytes(kube_proxy))?;
            }
            Some((own, kube_proxy)) => writeln!(
                text,
                "; on nft {} instead of at least {}",
                bytes(own),
                bytes(kube_proxy)
            )?,
            None => writeln!(text)?,
        }
        if let [(node, family), ..] = self.unread.as_slice() {
            writeln!(
                text,
                "not compared: {}, such as {family} of {node}: its rules were not read; see its log",
                match self.unread.len() {
                    1 => "1 family of a node".to_owned(),
                    count => format!("{count} families of nodes"),
                }
            )?;
        }
        if let [(node, family, other), ..] = self.other_backends.as_slice() {
            writeln!(
                text,
                "not compared: rules of a proxy in the other backend, in {}, such as {other} for \
                 {family} of {node}; if kube-proxy writes these, set --iptables-backend={other}",
                counted(self.other_backends.len(), "case"),
            )?;
        }
        if self.waiting > 0 {
            writeln!(
                text,
                "waiting:     {} for kube-proxy",
                counted(self.waiting, "Service")
            )?;
        }
        self.write_differences(text)
    }

    fn write_differences(&self, text: &mut String) -> fmt::Result {
        for (node, family, found) in self.differences.iter().take(MOST_LINES) {
            let service = match found.service.as_str() {
                "" => "-",
                name => name,
            };
            let (kind, table, chain) = (found.kind.as_str(), &found.table, &found.chain);
            let waiting = if found.is_waiting {
                ", waits for kube-proxy"
            } else {
                ""
            };
            let seconds = found.seconds;
            writeln!(
                text,
                "  {node} {family} {service}: {kind} {table} {chain} for {seconds} s{waiting}"
            )?;
        }
        let shown = self.differences.len().min(MOST_LINES) as u64;
        if self.all_differences > shown {
            writeln!(text, "  and {} more", self.all_differences - shown)?;
        }
        Ok(())
    }
}

fn lags(lags: &LagHistogram) -> String {
    match (lags.percentile(50), lags.percentile(99)) {
        (Some(p50), Some(p99)) => {
            let most = lags.max_seconds;
            format!("p50 {p50:.2} s, p99 {p99:.2} s, maximum {most:.2} s")
        }
        _ => "no changes yet".to_owned(),
    }
}

#[cfg(test)]
#[path = "tests/shadow_report.rs"]
mod tests;
