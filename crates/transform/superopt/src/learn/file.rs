//! Rule files: kept as they are, and grown.
//!
//! A rule's block is its comment and its text. New blocks are put where their names belong; blocks that were there are
//! not touched, so that growing a file twice by the same programs changes nothing.

use std::fmt::Write as _;

use kiln_equiv::{Method, Rule, parse_rules};

use super::LearnedRule;
use crate::rules::data::{RuleSet, RuleSetError};

/// A rule file, split into its rules.
#[derive(Clone, Debug, Default)]
pub struct RuleFile {
    /// Comment lines at the top.
    pub head: String,
    /// Name and text of each rule, comments before it included.
    pub blocks: Vec<(String, String)>,
    /// The rules.
    pub rules: Vec<Rule>,
}

impl RuleFile {
    /// Splits a text.
    ///
    /// # Errors
    /// What is wrong with it, by line or by rule.
    pub fn parse(text: &str) -> Result<RuleFile, RuleSetError> {
        let rules = parse_rules(text)?;
        RuleSet::new(rules.clone())?;
        let mut file = RuleFile { rules, ..RuleFile::default() };
        let mut pending = String::new();
        for line in text.lines() {
            if let Some(name) = line.trim().strip_prefix("rule ") {
                let name = name.split('#').next().unwrap_or_default().trim().to_owned();
                // Before the first rule, what an empty line sets off is the file's own.
                if file.blocks.is_empty()
                    && let Some((head, own)) = pending.rsplit_once("\n\n")
                {
                    file.head = format!("{head}\n");
                    pending = own.to_owned();
                }
                file.blocks.push((name, format!("{}{line}\n", std::mem::take(&mut pending))));
            } else if line.trim().starts_with('#') || line.trim().is_empty() {
                pending.push_str(line);
                pending.push('\n');
            } else {
                if let Some((_, block)) = file.blocks.last_mut() {
                    block.push_str(line);
                    block.push('\n');
                }
            }
        }
        if file.blocks.is_empty() {
            file.head = pending;
        }
        for (_, block) in &mut file.blocks {
            *block = format!("{}\n", block.trim_matches('\n'));
        }
        Ok(file)
    }
}

/// A file with more rules, in the order of their names.
pub fn merged(file: &RuleFile, learned: &[LearnedRule]) -> String {
    let mut blocks = file.blocks.clone();
    blocks.extend(learned.iter().map(|one| (one.rule.name.clone(), block(one))));
    blocks.sort();
    let mut text = file.head.trim_end().to_owned();
    for (_, block) in blocks {
        let separator = if text.is_empty() { "" } else { "\n\n" };
        let _ = write!(text, "{separator}{}", block.trim_end());
    }
    text.push('\n');
    text
}

fn block(learned: &LearnedRule) -> String {
    let LearnedRule { rule, found_in, programs, places, proof: (method, cases), .. } = learned;
    let how = match method {
        Method::Smt { .. } => "by the solver",
        Method::Normalized | Method::Rule => "by normal form",
    };
    let cases = if *cases == 1 { "one case".to_owned() } else { format!("{cases} cases") };
    format!("# Found in {found_in}; {programs} programs, {places} places. Proved {how}, {cases}.\n{rule}")
}
