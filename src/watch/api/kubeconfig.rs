//! Reads a context of a kubeconfig, or of several that are merged.
//!
//! # Source
//!
//! Upstream: k8s.io/client-go/tools/clientcmd/client_config.go, `DirectClientConfig` (v1.37)

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use http::Uri;
use kube::Config;
use kube::config::{
    AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster,
};
use tower::BoxError;

use super::error::ClientConfigError;
use super::proxy::Proxy;
use crate::watch::bounded;

/// Problem of a file without a current context.
const NO_CONTEXT: &str = "it has no current context\n\
                          hint: set one: kubectl config use-context NAME --kubeconfig FILE";

/// Choice of a cluster and its credentials within kubeconfigs, as by kubectl's flags. By
/// default the current context has both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextChoice {
    pub context: Option<String>,
    /// Name of a cluster, instead of that of the context.
    pub cluster: Option<String>,
    /// Name of a user, instead of that of the context.
    pub user: Option<String>,
}

/// Returns the configuration of a context, and the proxy that its cluster names. Of several files,
/// the first one with a name decides, as in kubectl.
pub(super) async fn from_kubeconfigs(
    paths: &[PathBuf],
    choice: &ContextChoice,
    master: Option<&str>,
) -> Result<(Config, Option<Proxy>), ClientConfigError> {
    let unusable = |source| ClientConfigError::Kubeconfig {
        paths: paths.to_vec(),
        source,
    };
    let mut kubeconfig = Kubeconfig::default();
    for path in paths {
        let next = read(path).map_err(|error| ClientConfigError::Kubeconfig {
            paths: vec![path.clone()],
            source: unreadable(error),
        })?;
        let merged = kubeconfig.merge(next);
        kubeconfig = merged.map_err(|error| unusable(error.into()))?;
    }
    if let Some(master) = master {
        let server = parse_address(master)?.to_string();
        for cluster in kubeconfig
            .clusters
            .iter_mut()
            .filter_map(|named| named.cluster.as_mut())
        {
            cluster.server = Some(server.clone());
        }
    }
    let (mut root_cert_file, mut proxy) = (None, None);
    if let Some(cluster) = chosen_cluster(&mut kubeconfig, choice) {
        root_cert_file = ca_file(cluster);
        // Without a value, the library reads the environment itself, and knows no `NO_PROXY`.
        let url = cluster.proxy_url.replace(UNUSED_PROXY_URL.to_owned());
        if let Some(url) = url.filter(|url| !url.is_empty()) {
            let parsed = Proxy::parse_url(&url);
            proxy = Some(parsed.map_err(|error| unusable(error.into()))?);
        }
    }
    let options = KubeConfigOptions {
        context: choice.context.clone(),
        cluster: choice.cluster.clone(),
        user: choice.user.clone(),
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| unusable(unknown_choice(error, choice)))?;
    config.root_cert_file = root_cert_file;
    config.proxy_url = None;
    Ok((config, proxy))
}

/// Converts an error of one file; the error around it has the path already.
fn unreadable(error: KubeconfigError) -> BoxError {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.into(),
        KubeconfigError::Parse(error) => syntax_error(&error).into(),
        other => other.into(),
    }
}

/// Converts an error of a choice: names what the kubeconfig lacks.
fn unknown_choice(error: KubeconfigError, choice: &ContextChoice) -> BoxError {
    match error {
        KubeconfigError::CurrentContextNotSet => NO_CONTEXT.into(),
        KubeconfigError::LoadContext(name) if name.is_empty() => NO_CONTEXT.into(),
        KubeconfigError::LoadContext(name) if choice.context.is_some() => {
            format!("unknown context `{name}`\n{LIST_CONTEXTS}").into()
        }
        KubeconfigError::LoadContext(name) => format!("unknown current context `{name}`").into(),
        KubeconfigError::LoadClusterOfContext(name) if choice.cluster.is_some() => {
            format!("unknown cluster `{name}`\n{LIST_CLUSTERS}").into()
        }
        KubeconfigError::LoadClusterOfContext(name) if choice.context.is_some() => {
            format!("unknown cluster `{name}` of the context").into()
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("unknown cluster `{name}` of the current context").into()
        }
        other => unreadable(other),
    }
}

const LIST_CONTEXTS: &str = "hint: list them: kubectl config get-contexts";
const LIST_CLUSTERS: &str = "hint: list them: kubectl config get-clusters";

/// Parses an address with a host.
pub(super) fn parse_address(text: &str) -> Result<Uri, ClientConfigError> {
    let invalid = || ClientConfigError::Address(text.to_owned());
    let uri: Uri = text.parse().map_err(|_| invalid())?;
    uri.authority().is_some().then_some(uri).ok_or_else(invalid)
}

/// Returns the place of a syntax error and what is wrong, without text of the file: it may be a
/// token, and errors are logged.
fn syntax_error(error: &serde_saphyr::Error) -> String {
    let place = error.location().map_or_else(String::new, |location| {
        format!("line {}, column {}: ", location.line(), location.column())
    });
    match error.without_snippet() {
        // The YAML parser says what it expected, never what it found.
        serde_saphyr::Error::ExternalMessage { msg, .. } => format!("{place}{msg}"),
        _ => format!("{place}unexpected value, or a key that is repeated"),
    }
}

/// Valid address that nothing connects to.
const UNUSED_PROXY_URL: &str = "http://unused";

/// Reads a kubeconfig. The size is checked here, since the library has no limit. A regular file is
/// then read again by the library, which resolves relative paths in it. A pipe can be read only
/// once, and its paths have no folder to be relative to.
fn read(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let text = bounded::read_to_string(path, bounded::MAX_CONFIG_BYTES)
        .map_err(|error| KubeconfigError::ReadConfig(error, path.to_owned()))?;
    if bounded::is_file(path) {
        Kubeconfig::read_from(path)
    } else {
        Kubeconfig::from_yaml(&text)
    }
}

/// Returns the cluster of a choice.
fn chosen_cluster<'k>(
    kubeconfig: &'k mut Kubeconfig,
    choice: &ContextChoice,
) -> Option<&'k mut Cluster> {
    let chosen = choice.context.as_ref();
    let chosen = chosen.or(kubeconfig.current_context.as_ref())?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|context| &context.name == chosen)?;
    let of_context = &context.context.as_ref()?.cluster;
    let name = choice.cluster.as_ref().unwrap_or(of_context);
    let is_chosen = |named: &&mut NamedCluster| &named.name == name;
    let found = kubeconfig.clusters.iter_mut().find(is_chosen)?;
    found.cluster.as_mut()
}

/// Returns the file with the CA certificate of a kubeconfig. It is set as the root certificate file
/// of the configuration, as the library does in Pods, because only that is read again when it
/// changes.
fn ca_file(cluster: &Cluster) -> Option<PathBuf> {
    match &cluster.certificate_authority_data {
        Some(data) if !data.is_empty() => None,
        _ => cluster
            .certificate_authority
            .as_ref()
            .filter(|path| !path.is_empty())
            .map(PathBuf::from),
    }
}

/// Program that a kubeconfig names for credentials, for errors.
#[derive(Debug, Default)]
pub(super) struct CredentialPlugin {
    command: String,
    /// Instructions to install it, by the author of the kubeconfig; may be empty.
    install_hint: String,
}

impl CredentialPlugin {
    /// Returns the plugin of a user; an empty one without any.
    pub(super) fn of(user: &AuthInfo) -> Self {
        let exec = user.exec.as_ref();
        let text = |field: Option<&String>| field.cloned().unwrap_or_default();
        Self {
            command: text(exec.and_then(|exec| exec.command.as_ref())),
            install_hint: text(exec.and_then(|exec| exec.install_hint.as_ref())),
        }
    }

    /// Returns the error of a failure, with a hint on how to install the plugin.
    pub(super) fn failed(&self, problem: &str) -> String {
        let mut text = format!(
            "the credential plugin `{}` of the kubeconfig failed: {problem}",
            self.command
        );
        let hint = self.install_hint.trim();
        if !hint.is_empty() {
            let _ = write!(text, "\nhint: install it as the kubeconfig says: {hint}");
        }
        text
    }
}
