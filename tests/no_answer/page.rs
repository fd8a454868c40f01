//! The page as data: steps, whose tables lead from an output to a section, and the samples of each
//! section.

use std::collections::BTreeMap;

use crate::readme::{blocks, fits_by};

const PAGE: &str = include_str!("../../deploy/docs/no-answer.md");
const PROMPT: &str = "$ ";
/// Stands for text that differs from node to node.
const ANY: &str = "...";

/// Step of the path to the cause.
pub struct Step {
    command: String,
    /// Parts of outputs, with the headings that they lead to.
    rows: Vec<(String, String)>,
}

/// Command and its output.
pub struct Sample {
    pub command: String,
    output: String,
}

/// All of the page.
pub struct Page {
    steps: Vec<Step>,
    sections: BTreeMap<String, Vec<Sample>>,
}

impl Page {
    pub fn read() -> Self {
        let (mut steps, mut sections) = (Vec::new(), BTreeMap::new());
        for section in PAGE.split("\n## ").skip(1) {
            let (heading, text) = section.split_once('\n').unwrap();
            if heading.starts_with("Step ") {
                steps.push(Step::read(text));
            } else {
                let samples = blocks(text);
                let samples = samples.iter().filter_map(|block| Sample::read(block));
                sections.insert(heading.to_owned(), samples.collect());
            }
        }
        Self { steps, sections }
    }

    /// Returns the samples of a section.
    #[track_caller]
    pub fn samples(&self, heading: &str) -> &[Sample] {
        let samples = self.sections.get(heading);
        samples.unwrap_or_else(|| panic!("no section `{heading}`"))
    }

    /// Runs the commands of the steps, with these words replaced, until an output leads to a
    /// section. Returns its heading, or all outputs.
    pub fn follow(
        &self,
        replaced: &[(&str, &str)],
        run: impl Fn(&str) -> String,
    ) -> Result<&str, String> {
        let with = |text: &str| {
            let words = replaced.iter();
            words.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
        };
        let mut outputs = String::new();
        for step in &self.steps {
            let output = run(&with(&step.command));
            let leads = |(part, _): &&(String, String)| output.contains(&with(part));
            if let Some((_, heading)) = step.rows.iter().find(leads) {
                return Ok(heading);
            }
            outputs += &output;
        }
        Err(outputs)
    }
}

impl Step {
    fn read(text: &str) -> Self {
        let row = |line: &str| {
            let (part, rest) = line.strip_prefix("| `")?.split_once('`')?;
            let (heading, link) = rest.split_once("| [")?.1.split_once("](#")?;
            let anchor = heading.to_lowercase().replace(' ', "-");
            assert_eq!(link, format!("{anchor}) |"));
            Some((part.to_owned(), heading.to_owned()))
        };
        Self {
            command: blocks(text).swap_remove(0),
            rows: text.lines().filter_map(row).collect(),
        }
    }
}

impl Sample {
    fn read(block: &str) -> Option<Self> {
        let (command, output) = block.strip_prefix(PROMPT)?.split_once('\n')?;
        Some(Self {
            command: command.to_owned(),
            output: output.to_owned(),
        })
    }

    /// Fails unless the command prints what the page shows.
    #[track_caller]
    pub fn check(&self, run: impl Fn(&str) -> String) {
        let printed = run(&self.command);
        let shown = &self.output;
        assert!(
            fits_by(shown, &printed, line_fits),
            "{}:\n{printed}\ninstead of:\n{shown}",
            self.command
        );
    }
}

/// Reports whether a printed line is the shown one, in which [`ANY`] stands for any text.
fn line_fits(shown: &str, printed: &str) -> bool {
    let Some((first, rest)) = shown.split_once(ANY) else {
        return shown == printed;
    };
    let Some(printed) = printed.strip_prefix(first) else {
        return false;
    };
    let mut ends = (0..=printed.len()).filter_map(|at| printed.get(at..));
    ends.any(|end| line_fits(rest, end))
}

#[test]
fn every_row_leads_to_a_section_with_its_output() {
    let page = Page::read();
    let mut linked: Vec<&str> = Vec::new();
    for (part, heading) in page.steps.iter().flat_map(|step| &step.rows) {
        let samples = page.samples(heading);
        let is_shown = |sample: &Sample| sample.output.contains(part);
        assert!(samples.iter().any(is_shown), "{heading}: {part}");
        linked.push(heading);
    }
    let sections = page.sections.iter();
    let with_samples = sections.filter(|(_, samples)| !samples.is_empty());
    for (heading, _) in with_samples {
        assert!(
            linked.contains(&heading.as_str()),
            "no row leads to {heading}"
        );
    }
}
