//! A configuration as the text of a file.
//!
//! Apart from [`read`](super::read()), which reads it back: fields are written in the order of
//! their names, as kube-proxy writes them, so that the files of both can be compared by `diff`.

use serde_json::Value;

use super::KubeProxyConfiguration;
use super::read::{API_VERSION, KIND};
use super::tree::tree;

impl KubeProxyConfiguration {
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
