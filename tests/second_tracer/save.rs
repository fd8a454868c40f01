//! Reads a dump as words: no normal form, no types.

use std::collections::BTreeMap;

/// A chain of a dump.
#[derive(Debug, Clone, Default)]
pub struct SavedChain {
    /// `ACCEPT` or `DROP` of a built-in chain, else `-`.
    pub policy: String,
    /// The words of each rule behind the name of its chain.
    pub rules: Vec<Vec<String>>,
}

/// Chains by table and name.
#[derive(Debug, Clone, Default)]
pub struct Save(BTreeMap<(String, String), SavedChain>);

impl Save {
    /// Reads the lines that `iptables-save` prints; `None` if one has an open quote.
    pub fn read(text: &str) -> Option<Self> {
        let mut save = Self::default();
        let mut table = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('*') {
                name.clone_into(&mut table);
            } else if let Some(header) = line.strip_prefix(':') {
                let words: Vec<&str> = header.split(' ').collect();
                let chain = save.chain_mut(&table, words[0]);
                words[1].clone_into(&mut chain.policy);
            } else if let Some(at) = line.find("-A ").filter(|_| !line.starts_with('#')) {
                let mut words = words(&line[at + 3..])?;
                let name = words.remove(0);
                save.chain_mut(&table, &name).rules.push(words);
            }
        }
        Some(save)
    }

    fn chain_mut(&mut self, table: &str, name: &str) -> &mut SavedChain {
        let key = (table.to_owned(), name.to_owned());
        self.0.entry(key).or_default()
    }

    /// A chain of a table.
    pub fn chain(&self, table: &str, name: &str) -> Option<&SavedChain> {
        self.0.get(&(table.to_owned(), name.to_owned()))
    }

    /// Every rule with its table and chain.
    pub fn rules(&self) -> impl Iterator<Item = &Vec<String>> {
        self.0.values().flat_map(|chain| &chain.rules)
    }
}

fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut is_open, mut is_word) = (Vec::new(), String::new(), false, false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => (is_open, is_word) = (!is_open, true),
            '\\' if is_open => word.push(chars.next()?),
            ' ' if !is_open => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            c => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    (!is_open).then_some(words)
}

/// Value of the option, if the rule has it without `!`.
pub fn option<'a>(rule: &'a [String], name: &str) -> Option<&'a str> {
    let at = rule.iter().position(|word| word == name)?;
    let is_negated = at > 0 && rule[at - 1] == "!";
    rule.get(at + 1).filter(|_| !is_negated).map(String::as_str)
}
