//! Numbers of findings that are still allowed.

use crate::{Failure, Findings, Rule};
use std::collections::BTreeMap;

/// Largest number of modules in a circle that needs no line in the list.
pub const CIRCLE_MAX: usize = 5;

/// Allowed numbers by rule and room. The default is 0, or `CIRCLE_MAX` for circles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(BTreeMap<(Rule, String), usize>);

impl Allowed {
    /// Reads a list of lines `rule room number`. Lines that begin with `#` are comments.
    ///
    /// # Errors
    /// A line has another form.
    pub fn parse(text: &str) -> Result<Allowed, Failure> {
        let mut allowed = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || Failure::Allowed(number + 1, line.to_owned());
            let [rule, room, amount] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(wrong());
            };
            let rule = Rule::named(rule).ok_or_else(wrong)?;
            let amount = amount.parse().map_err(|_| wrong())?;
            allowed.insert((rule, room.to_owned()), amount);
        }
        Ok(Allowed(allowed))
    }

    fn get(&self, rule: Rule, room: &str) -> usize {
        let floor = if rule == Rule::Circle { CIRCLE_MAX } else { 0 };
        self.0.get(&(rule, room.to_owned())).copied().unwrap_or(0).max(floor)
    }

    /// Rules and rooms with more findings than allowed: the found and the allowed number.
    pub fn exceeded(&self, findings: &Findings) -> Vec<(Rule, String, usize, usize)> {
        self.compare(findings, |found, allowed| found > allowed)
    }

    /// Rules and rooms with fewer findings than allowed.
    pub fn unused(&self, findings: &Findings) -> Vec<(Rule, String, usize, usize)> {
        self.compare(findings, |found, allowed| found < allowed && allowed > 0)
            .into_iter()
            .filter(|(rule, _, _, allowed)| *rule != Rule::Circle || *allowed > CIRCLE_MAX)
            .collect()
    }

    fn compare(
        &self,
        findings: &Findings,
        is_it: impl Fn(usize, usize) -> bool,
    ) -> Vec<(Rule, String, usize, usize)> {
        let mut rooms: Vec<&String> = findings.rooms.keys().collect();
        rooms.extend(self.0.keys().map(|(_, room)| room));
        rooms.sort();
        rooms.dedup();
        let mut list = Vec::new();
        for rule in Rule::ALL {
            for room in &rooms {
                let (found, allowed) = (findings.amount(rule, room), self.get(rule, room));
                if is_it(found, allowed) {
                    list.push((rule, (*room).clone(), found, allowed));
                }
            }
        }
        list
    }

    /// The list with every number lowered to the current one, where that is smaller.
    #[must_use]
    pub fn lowered(&self, findings: &Findings) -> Allowed {
        let mut lowered = self.clone();
        for (rule, room, found, _) in self.unused(findings) {
            lowered.0.insert((rule, room), found);
        }
        lowered.0.retain(|(rule, _), amount| {
            *amount > if *rule == Rule::Circle { CIRCLE_MAX } else { 0 }
        });
        lowered
    }

    /// The list that allows exactly the current findings.
    pub fn now(findings: &Findings) -> Allowed {
        let mut now = BTreeMap::new();
        for rule in Rule::ALL {
            for room in findings.rooms.keys() {
                now.insert((rule, room.clone()), findings.amount(rule, room));
            }
        }
        Allowed(now).lowered(findings)
    }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "# What still breaks the rules of `xtask tidy`: rule, room, number; of circles"
        )?;
        writeln!(
            f,
            "# the modules of the largest. These numbers only fall: `xtask tidy --lower`."
        )?;
        self.0
            .iter()
            .try_for_each(|((rule, room), amount)| writeln!(f, "{} {room} {amount}", rule.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;

    fn findings(amounts: &[(Rule, usize)]) -> Findings {
        let mut findings = Findings::default();
        findings.room("a");
        for &(rule, amount) in amounts {
            let finding = Finding {
                rule,
                room: "a".into(),
                file: String::new(),
                line: 1,
                amount,
                text: String::new(),
            };
            findings.list.push(finding);
        }
        findings
    }

    #[test]
    fn one_finding_more_than_allowed_fails_and_one_less_lowers_the_list() {
        let allowed = Allowed::parse("# why\nfile a 1\ncircle a 9\n").unwrap();
        let more = findings(&[(Rule::File, 700), (Rule::File, 601), (Rule::Circle, 10)]);
        let expected = [(Rule::Circle, "a".into(), 10, 9), (Rule::File, "a".into(), 2, 1)];
        assert_eq!(allowed.exceeded(&more), expected);
        let less = findings(&[(Rule::Circle, 5)]);
        assert_eq!(allowed.exceeded(&less), []);
        assert_eq!(allowed.lowered(&less), Allowed::default());
        let same = Allowed::parse(&allowed.to_string()).unwrap();
        assert_eq!(same, allowed);
        assert!(Allowed::parse("file a\n").is_err());
    }
}
