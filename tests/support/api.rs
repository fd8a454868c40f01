//! A blocking client of the API server, living in the namespace where the server is.
//!
//! One thread stays in that namespace and works through batches, several requests at a time, so
//! that a test can load thousands of objects over connections that stay open.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;

use futures::StreamExt;
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

use super::netns::move_into;

/// More than this only queues inside the server.
const REQUESTS_AT_ONCE: usize = 16;

/// The name under which the tests own the fields they apply.
const FIELD_MANAGER: &str = "deltaproxy-tests";

type Answer = Result<String, String>;
type Batch = (Vec<Request<Vec<u8>>>, mpsc::Sender<Vec<Answer>>);

/// The client. Its thread ends when it is dropped.
pub struct Api {
    batches: Option<mpsc::Sender<Batch>>,
    thread: Option<JoinHandle<()>>,
}

impl Api {
    /// Starts the thread; nothing is sent yet.
    pub fn new(namespace: PathBuf, kubeconfig: String) -> Self {
        let (batches, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            move_into(&namespace);
            serve(&kubeconfig, &receiver);
        });
        Self {
            batches: Some(batches),
            thread: Some(thread),
        }
    }

    /// Creates or changes an object (server-side apply), and then its status if it has one.
    #[track_caller]
    pub fn apply(&self, object: &Value) {
        self.apply_all(std::slice::from_ref(object));
    }

    /// The same for one that the server may find invalid: its reason is the error.
    pub fn offer(&self, object: &Value) -> Result<(), String> {
        for request in std::iter::once(apply_request(object)).chain(status_request(object)) {
            self.send(vec![request]).remove(0)?;
        }
        Ok(())
    }

    /// The same for many, all objects first and then all statuses.
    #[track_caller]
    pub fn apply_all(&self, objects: &[Value]) {
        self.expect(objects.iter().map(apply_request).collect());
        self.expect(objects.iter().filter_map(status_request).collect());
    }

    /// Changes fields of an object by a JSON merge patch.
    #[track_caller]
    pub fn merge(&self, object: &Value, change: &Value) {
        let body = serde_json::to_vec(change).unwrap();
        self.expect(vec![patch(
            &path_of(object),
            "application/merge-patch+json",
            body,
        )]);
    }

    /// Deletes an object.
    #[track_caller]
    pub fn delete(&self, object: &Value) {
        let request = Request::delete(path_of(object)).body(Vec::new()).unwrap();
        self.expect(vec![request]);
    }

    /// Deletes an object that may not exist.
    #[track_caller]
    pub fn delete_if_there(&self, object: &Value) {
        if self.read(object).is_ok() {
            self.delete(object);
        }
    }

    /// Reads an object back, as the server completed it.
    pub fn read(&self, object: &Value) -> Result<Value, String> {
        let request = Request::get(path_of(object)).body(Vec::new()).unwrap();
        let answer = self.send(vec![request]).remove(0)?;
        serde_json::from_str(&answer).map_err(|error| error.to_string())
    }

    /// Sends one GET and returns the text, as for `/readyz`.
    pub fn get(&self, path: &str) -> Answer {
        self.send(vec![Request::get(path).body(Vec::new()).unwrap()])
            .remove(0)
    }

    /// Sends requests and returns the answers in the same order.
    pub fn send(&self, requests: Vec<Request<Vec<u8>>>) -> Vec<Answer> {
        let (answers, receiver) = mpsc::channel();
        let batches = self.batches.as_ref().expect("the client is in use");
        batches
            .send((requests, answers))
            .expect("the client's thread runs");
        receiver.recv().expect("the client's thread answers")
    }

    #[track_caller]
    fn expect(&self, requests: Vec<Request<Vec<u8>>>) {
        let names: Vec<_> = requests
            .iter()
            .map(|request| format!("{} {}", request.method(), request.uri()))
            .collect();
        for (name, answer) in names.iter().zip(self.send(requests)) {
            if let Err(error) = answer {
                panic!("{name}: {error}");
            }
        }
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        drop(self.batches.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn serve(kubeconfig: &str, batches: &mpsc::Receiver<Batch>) {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .expect("a config");
    // A test wants to see the outage, not to wait behind retries.
    config.default_retry = false;
    let client = Client::try_from(config).expect("a client");
    while let Ok((requests, answers)) = batches.recv() {
        let sent = requests.into_iter().map(|request| {
            let client = client.clone();
            async move {
                client
                    .request_text(request)
                    .await
                    .map_err(|error| error.to_string())
            }
        });
        let _ = answers.send(
            futures::stream::iter(sent)
                .buffered(REQUESTS_AT_ONCE)
                .collect()
                .await,
        );
    }
}

/// Everything but the status, which is written through its own path only; here it would be refused
/// or dropped.
fn apply_request(object: &Value) -> Request<Vec<u8>> {
    let mut object = object.clone();
    object.as_object_mut().expect("an object").remove("status");
    let body = serde_json::to_vec(&object).unwrap();
    let path = format!(
        "{}?fieldManager={FIELD_MANAGER}&force=true",
        path_of(&object)
    );
    patch(&path, "application/apply-patch+yaml", body)
}

fn status_request(object: &Value) -> Option<Request<Vec<u8>>> {
    let body = serde_json::json!({ "status": object.get("status")? });
    let body = serde_json::to_vec(&body).unwrap();
    let path = format!("{}/status", path_of(object));
    Some(patch(&path, "application/merge-patch+json", body))
}

fn patch(path: &str, content_type: &str, body: Vec<u8>) -> Request<Vec<u8>> {
    Request::patch(path)
        .header("content-type", content_type)
        .body(body)
        .unwrap()
}

/// Where the server keeps the object.
fn path_of(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").expect("a kind");
    let version = text("/apiVersion").expect("an apiVersion");
    let name = text("/metadata/name").expect("a name");
    let root = if version == "v1" {
        "/api".to_owned()
    } else {
        "/apis".to_owned()
    };
    let namespace = match kind {
        "Node" | "Namespace" | "ServiceCIDR" | "ClusterRole" | "ClusterRoleBinding" => {
            String::new()
        }
        _ => format!(
            "/namespaces/{}",
            text("/metadata/namespace").unwrap_or("default")
        ),
    };
    format!(
        "{root}/{version}{namespace}/{}s/{name}",
        kind.to_lowercase()
    )
}
