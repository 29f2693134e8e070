//! Rules that the corpus does not cover.

use super::essential;

#[test]
fn flavors_are_cut_off() {
    for (name, expected) in [
        ("task_struct", "task_struct"),
        ("task_struct___v5", "task_struct"),
        ("task_struct___old___v5", "task_struct___old"),
        ("___hidden", "___hidden"),
        ("four____underscores", "four____underscores"),
        ("ends___", "ends___"),
    ] {
        assert_eq!(essential(name), expected);
    }
}
