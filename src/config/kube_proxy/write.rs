//! A configuration as the text of a file.
//!
//! Apart from [`read`](super::read()), which reads it back: fields are written in the order of
//! their names, as kube-proxy writes them, so that the files of both can be compared by `diff`.

use serde::Serialize;
use serde_json::Value;

use super::KubeProxyConfiguration;
use super::read::{API_VERSION, KIND};
use super::tree::tree;

/// What `/configz` shows: configurations by their groups, each in the order of the fields of
/// upstream's types.
///
/// Upstream: staging/src/k8s.io/component-base/configz/configz.go (v1.36)
#[derive(Serialize)]
struct Configz<'a> {
    #[serde(rename = "kubeproxy.config.k8s.io")]
    kube_proxy: Object<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(flatten)]
    configuration: &'a KubeProxyConfiguration,
}

impl KubeProxyConfiguration {
    /// The text of `/configz`.
    pub fn to_configz(&self) -> String {
        let kube_proxy = Object {
            kind: KIND,
            api_version: API_VERSION,
            configuration: self,
        };
        // Every key is a string and no number is infinite, so that nothing can fail.
        serde_json::to_string(&Configz { kube_proxy }).unwrap_or_default()
    }

    /// The whole object.
    pub fn to_json(&self) -> Value {
        let mut tree = tree(self);
        if let Value::Object(fields) = &mut tree {
            fields.insert("apiVersion".to_owned(), API_VERSION.into());
            fields.insert("kind".to_owned(), KIND.into());
        }
        tree
    }

    /// The text of a file that says the same.
    pub fn to_yaml(&self) -> String {
        // The tree has nothing but what YAML can say, so that nothing can fail.
        serde_saphyr::to_string(&self.to_json()).unwrap_or_default()
    }
}
