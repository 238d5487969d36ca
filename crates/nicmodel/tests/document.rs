//! The document lists every constant with its actual values.

use fairway_nicmodel::constants::ALL;

#[test]
fn every_constant_stands_in_the_document() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/nicmodel.md");
    let text = std::fs::read_to_string(path).expect("the document is there");
    for constant in ALL {
        let row = format!(
            "| `{}` | {} | {} | {} |",
            constant.name, constant.default, constant.unit, constant.source
        );
        assert!(text.contains(&row), "docs/nicmodel.md lacks:\n{row}");
    }
}
