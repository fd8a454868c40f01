//! Files of the Pods: keys of ConfigMaps, which differ between kinds of clusters.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::pod;

/// Files of the first volume, by their names: keys of ConfigMaps, all of them or some.
fn files(cluster: &Cluster, set: &Value) -> BTreeMap<String, String> {
    let volume = &pod(set)["volumes"][0];
    let sources = match &volume["projected"]["sources"] {
        Value::Array(sources) => sources.clone(),
        _ => vec![volume.clone()],
    };
    let mut files = BTreeMap::new();
    for source in sources {
        let name = source["configMap"]["name"].as_str().unwrap();
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "kube-system", "name": name},
        });
        let data = cluster.lab.control.api().read(&object).unwrap()["data"].clone();
        let data: BTreeMap<String, String> = serde_json::from_value(data).unwrap();
        match &source["configMap"]["items"] {
            Value::Array(items) => files.extend(items.iter().map(|item| {
                let text = |field: &str| item[field].as_str().unwrap().to_owned();
                let content = data.get(&text("key"));
                let content = content.unwrap_or_else(|| panic!("{name} lacks {item}"));
                (text("path"), content.clone())
            })),
            _ => files.extend(data),
        }
    }
    files
}

/// The command names a file of the volume, and that file the kubeconfig in it.
#[track_caller]
pub fn configuration_is_mounted(cluster: &Cluster, name: &str) {
    let set = cluster.daemon_set(name);
    let container = &pod(&set)["containers"][0];
    let mount = &container["volumeMounts"][0];
    assert_eq!(mount["name"], pod(&set)["volumes"][0]["name"], "{set}");
    let folder = format!("{}/", mount["mountPath"].as_str().unwrap());
    let files = files(cluster, &set);
    let file = |path: &str| {
        let name = path.strip_prefix(&folder);
        let text = name.and_then(|name| files.get(name));
        text.unwrap_or_else(|| panic!("{path} is not among {:?}", files.keys()))
    };
    let command = container["command"].as_array().unwrap();
    let flag = |word: &Value| Some(word.as_str()?.strip_prefix("--config=")?.to_owned());
    let config: Value =
        serde_saphyr::from_str(file(&command.iter().find_map(flag).unwrap())).unwrap();
    let kubeconfig = config["clientConnection"]["kubeconfig"].as_str().unwrap();
    assert!(file(kubeconfig).contains("kind: Config"));
}
