//! The report of `fairway doctor`: one line for each property.

use serde_json::{Value, json};

/// Meaning of a reading for programs that use Fairway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Nothing to improve.
    Ok,
    /// It works, but costs time.
    Slower,
    /// Something optional is absent, and features that require it do not work.
    Missing,
    /// Fairway cannot work, or the named machine cannot be reached. Exit status 1.
    Broken,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Slower => "slower",
            Verdict::Missing => "missing",
            Verdict::Broken => "broken",
        }
    }
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Section of the report.
    pub(crate) section: &'static str,
    /// Name of the checked property.
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    /// Result with figures.
    pub(crate) found: String,
    /// Remedy: a sentence, or a command.
    pub(crate) remedy: Option<String>,
}

/// A finding without a remedy.
pub(crate) fn fine(
    section: &'static str,
    name: impl Into<String>,
    found: impl Into<String>,
) -> Finding {
    let (name, found) = (name.into(), found.into());
    Finding { section, name, verdict: Verdict::Ok, found, remedy: None }
}

impl Finding {
    /// The same finding with another verdict and a remedy.
    pub(crate) fn but(self, verdict: Verdict, remedy: impl Into<String>) -> Finding {
        Finding { verdict, remedy: Some(remedy.into()), ..self }
    }

    /// The finding as a JSON object.
    pub(crate) fn json(&self) -> Value {
        json!({
            "section": self.section,
            "name": self.name,
            "verdict": self.verdict.name(),
            "found": self.found,
            "remedy": self.remedy,
        })
    }
}

/// The report as text.
pub(crate) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    let mut section = "";
    for finding in findings {
        if finding.section != section {
            section = finding.section;
            text += &format!("\n{section}\n");
        }
        let Finding { name, verdict, found, remedy, .. } = finding;
        text += &format!("  {:<8} {name:<22} {found}\n", verdict.name());
        if let Some(remedy) = remedy {
            text += &format!("  {:<8} {:<22} -> {remedy}\n", "", "");
        }
    }
    text + "\n" + &summary(findings) + "\n"
}

/// The names of broken properties, and the numbers of the other verdicts.
pub(crate) fn summary(findings: &[Finding]) -> String {
    let of = |verdict| findings.iter().filter(move |finding| finding.verdict == verdict);
    let broken: Vec<&str> = of(Verdict::Broken).map(|finding| finding.name.as_str()).collect();
    let rest = format!(
        "{} ok, {} slower, {} missing",
        of(Verdict::Ok).count(),
        of(Verdict::Slower).count(),
        of(Verdict::Missing).count()
    );
    match broken.as_slice() {
        [] => format!("nothing is broken: {rest}"),
        broken => format!("broken: {}; {rest}", broken.join(", ")),
    }
}
