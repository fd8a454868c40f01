//! Commands of a guide in `deploy/docs`: indented lines that begin with a program.

use std::fs;

/// Programs that the guides name.
const PROGRAMS: [&str; 8] = [
    "aws",
    "cp",
    "curl",
    "deltaproxy",
    "helm",
    "kubeadm",
    "kubectl",
    "mkdir",
];

/// A guide, by its headings.
pub struct Page {
    name: String,
    /// Heading and commands of each section that has any.
    sections: Vec<(String, Vec<String>)>,
}

impl Page {
    /// Reads a page.
    pub fn read(name: &str) -> Self {
        let path = format!("{}/deploy/docs/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(path).unwrap();
        let mut sections = vec![(String::new(), Vec::new())];
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                sections.push((heading.to_owned(), Vec::new()));
            } else if let Some(line) = line.strip_prefix("    ") {
                let program = line.split(' ').next().unwrap();
                if PROGRAMS.contains(&program) {
                    sections.last_mut().unwrap().1.push(line.to_owned());
                } else {
                    assert!(line.contains(':'), "neither a command nor YAML: {line}");
                }
            }
        }
        sections.retain(|(_, commands)| !commands.is_empty());
        Self {
            name: name.to_owned(),
            sections,
        }
    }

    /// Takes the commands of a section, so that each is run once.
    #[track_caller]
    pub fn take(&mut self, heading: &str) -> Vec<String> {
        let index = self
            .sections
            .iter()
            .position(|(section, _)| section == heading);
        let index = index.unwrap_or_else(|| panic!("{}: no commands in `{heading}`", self.name));
        self.sections.remove(index).1
    }

    /// Fails if a command was not taken.
    #[track_caller]
    pub fn end(self) {
        assert_eq!(self.sections, [], "{}: commands never run", self.name);
    }
}
