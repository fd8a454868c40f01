//! Tests of `store`.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use tempfile::TempDir;

use super::super::files::find;
use super::*;

const A: &str = "{kind: Service, metadata: {name: a}}";
const B: &str = "{kind: Service, metadata: {name: b}}";

impl ManifestOptions {
    pub(crate) fn new(node_name: Arc<str>) -> Self {
        Self {
            node_name,
            assumes_load_balancer_ips: false,
        }
    }
}

/// Directory whose files are looked at.
struct Scene {
    directory: TempDir,
    store: Store,
    options: ManifestOptions,
    errors: usize,
}

impl Scene {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            store: Store::default(),
            options: ManifestOptions::new("here".into()),
            errors: 0,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        // As `mv` of another file does, so that the state changes however fast this is.
        fs::write(path.with_extension("new"), text).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    /// Returns the names of the Services, if they have changed.
    fn look(&mut self) -> Option<String> {
        let found = find(self.directory.path()).unwrap();
        self.errors += self.store.look(&found).len();
        let changed = self.store.changed(&self.options)?;
        let names = changed.services.iter().map(|one| &*one.metadata.name);
        Some(names.collect::<Vec<_>>().join(" "))
    }

    fn replaced(&mut self, name: &str, text: &str) -> (Option<String>, usize) {
        self.write(name, text);
        (self.look(), self.store.unusable_files())
    }
}

#[test]
fn an_unusable_file_does_not_affect_other_files() {
    let mut scene = Scene::new();
    // Nothing is returned before a file was valid.
    assert_eq!(scene.replaced("b.yaml", "spec: ["), (None, 1));
    assert_eq!(scene.replaced("a.yaml", A), (Some("a".to_owned()), 1));
    assert_eq!(scene.replaced("b.yaml", B), (Some("a b".to_owned()), 0));
    assert_eq!(scene.look(), None);
    assert_eq!(scene.replaced("c.yaml", "spec: ["), (None, 1));
    assert_eq!(
        scene.replaced("a.yaml", "kind: Pod"),
        (Some("b".to_owned()), 1)
    );
    // The last valid content stays in use.
    assert_eq!(scene.replaced("b.yaml", "spec: ["), (None, 2));
    assert_eq!(scene.replaced("a.yaml", A), (Some("a b".to_owned()), 2));
}

#[test]
fn a_file_that_became_a_dangling_link_keeps_its_objects() {
    let mut scene = Scene::new();
    symlink("b", scene.path("a.yaml")).unwrap();
    // Nothing is returned, so the rules of an earlier process stay.
    assert_eq!((scene.look(), scene.errors), (None, 1));
    assert_eq!((scene.look(), scene.errors), (None, 1));
    scene.write("b", A);
    assert_eq!((scene.look(), scene.errors), (Some("a".to_owned()), 1));
    fs::remove_file(scene.path("b")).unwrap();
    assert_eq!((scene.look(), scene.errors), (None, 2));
    assert_eq!(scene.store.unusable_files(), 1);
    fs::remove_file(scene.path("a.yaml")).unwrap();
    assert_eq!((scene.look(), scene.errors), (Some(String::new()), 2));
}

#[test]
fn a_directory_without_manifests_is_an_empty_list() {
    let mut scene = Scene::new();
    scene.write("a.txt", "");
    assert_eq!(scene.look(), Some(String::new()));
}

/// A program that writes it was just interrupted, for example.
#[test]
fn an_empty_file_is_not_an_empty_list() {
    let mut scene = Scene::new();
    assert_eq!(scene.replaced("a.yaml", ""), (None, 1));
    assert_eq!(scene.replaced("a.yaml", "\n"), (None, 1));
    assert_eq!(
        scene.replaced("a.yaml", "# nothing yet"),
        (Some(String::new()), 0)
    );
    assert_eq!(scene.replaced("a.yaml", A), (Some("a".to_owned()), 0));
    assert_eq!(scene.replaced("a.yaml", ""), (None, 1));
}

#[test]
fn each_unusable_file_is_reported_once() {
    let mut scene = Scene::new();
    for (text, reported) in [("a: [", 1), ("a: {", 2), ("a: 1", 2), ("a: {", 3)] {
        scene.write("a.yaml", text);
        scene.look();
        scene.look();
        assert_eq!(scene.errors, reported, "{text}");
    }
}

#[test]
fn an_undecodable_service_keeps_its_state_and_its_node_port() {
    let mut scene = Scene::new();
    let service = |name: &str, ports: &str| {
        format!(
            "kind: Service\nmetadata: {{name: {name}}}\nspec: {{type: NodePort, ports: {ports}}}\n"
        )
    };
    let valid = service("a", "[{port: 80}]");
    assert_eq!(scene.replaced("a.yaml", &valid), (Some("a".to_owned()), 0));
    let returned = |scene: &Scene| {
        let manifests = scene.store.returned.as_ref().unwrap();
        let ports = manifests
            .services
            .iter()
            .map(|one| one.spec.ports[0].node_port);
        (ports.collect::<Vec<_>>(), manifests.undecodable)
    };
    let (before, _) = returned(&scene);
    scene.write("b.yaml", &service("b", "[{port: 80}]"));
    // `c` was never valid.
    let invalid = format!("{}---\n{}", service("a", "5"), service("c", "5"));
    assert_eq!(
        scene.replaced("a.yaml", &invalid),
        (Some("a b".to_owned()), 0)
    );
    let (ports, undecodable) = returned(&scene);
    assert_eq!((&ports[..1], undecodable), (&before[..], 2));
}

#[test]
fn an_undecodable_node_keeps_its_state() {
    let mut scene = Scene::new();
    let with_cidrs = |cidrs: &str| {
        format!("kind: Node\nmetadata: {{name: here}}\nspec: {{podCIDRs: {cidrs}}}\n")
    };
    scene.replaced("a.yaml", &with_cidrs("[10.0.0.0/8]"));
    scene.replaced("a.yaml", &with_cidrs("5"));
    let manifests = scene.store.returned.as_ref().unwrap();
    let node = manifests.node.as_ref().unwrap();
    assert_eq!(node.spec.pod_cidrs, ["10.0.0.0/8"]);
    let [text] = manifests.notes.as_slice() else {
        panic!("{:?}", manifests.notes)
    };
    assert!(text.starts_with("Node `here` in `"), "{text}");
}
