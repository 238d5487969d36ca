//! Dependencies between the modules of a crate, and their circles.
//!
//! Two modules are compared where their paths diverge: `channel::receive` that uses `nic::channels`
//! is an arrow from `channel` to `nic` among the children of the root; one between `channel::ack`
//! and `channel::loss` is one among the children of `channel`. Uses of a module's parents or
//! children are not arrows. Names that a module re-exports (`pub use`) are followed.

use crate::{Failure, Finding, Findings, Rule, Source};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// Path of a module from the root of a crate.
type Path = Vec<String>;

pub(crate) fn check(sources: &[Source], findings: &mut Findings) -> Result<(), Failure> {
    for (room, arrows) in all_arrows(sources)? {
        for (parent, arrows) in arrows {
            for circle in circles(&arrows) {
                let file = [&room, &parent.join("::")].map(String::as_str).join(" ");
                findings.list.push(Finding {
                    rule: Rule::Circle,
                    room: room.clone(),
                    file: file.trim().to_owned(),
                    line: 0,
                    amount: circle.len(),
                    text: circle.join(", "),
                });
            }
        }
    }
    Ok(())
}

/// The arrows within the circles of a crate, one a line, with the used path.
pub(crate) fn explain(sources: &[Source], of: &str) -> Result<String, Failure> {
    let mut text = String::new();
    for (parent, arrows) in all_arrows(sources)?.remove(of).into_iter().flatten() {
        for circle in circles(&arrows) {
            text += &format!("{} circle: {}\n", parent.join("::"), circle.join(", "));
            for from in &circle {
                for (to, used) in arrows[from].iter().filter(|(to, _)| circle.contains(to)) {
                    let used: Vec<&str> = used.iter().map(String::as_str).collect();
                    text += &format!("  {from} -> {to}: {}\n", used.join(", "));
                }
            }
        }
    }
    Ok(text)
}

/// Arrows by crate and parent module.
type AllArrows = BTreeMap<String, BTreeMap<Path, Arrows>>;

fn all_arrows(sources: &[Source]) -> Result<AllArrows, Failure> {
    let mut rooms: BTreeMap<&str, Vec<(&Source, Path)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust() && !source.is_test()) {
        if let Some(module) = source.module() {
            rooms.entry(&source.room).or_default().push((source, module));
        }
    }
    let mut all = AllArrows::new();
    for (room, files) in rooms {
        let mut used = Vec::new();
        for (source, module) in &files {
            let file = syn::parse_file(&source.text)
                .map_err(|error| Failure::Parse(source.file.clone(), error))?;
            let mut uses = Uses { module: module.clone(), used: Vec::new(), handed: Vec::new() };
            uses.visit_file(&file);
            used.push(uses);
        }
        let names = Names::new(files.iter().map(|(_, module)| module.clone()), &used);
        all.insert(room.to_owned(), arrows(&names, &used));
    }
    Ok(all)
}

/// Paths of its crate that a file uses.
struct Uses {
    module: Path,
    /// Absolute paths that the file uses.
    used: Vec<Path>,
    /// Names that the file re-exports, and their origin.
    handed: Vec<(String, Path)>,
}

impl Uses {
    /// The absolute form of a path that begins with `crate`, `self` or `super`, or with a child.
    fn absolute(&self, path: &[String]) -> Option<Path> {
        let mut base = self.module.clone();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => base.clear(),
            Some("self") => {}
            Some("super") => {
                while let [first, others @ ..] = &rest[1..]
                    && first == "super"
                {
                    base.pop();
                    rest = &rest[1..];
                    let _ = others;
                }
                base.pop();
            }
            _ => return None,
        }
        base.extend(rest[1..].iter().cloned());
        Some(base)
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &[String], is_handed: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                let here = [before, &[path.ident.to_string()]].concat();
                self.tree(&path.tree, &here, is_handed);
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.tree(item, before, is_handed));
            }
            syn::UseTree::Name(name) => self.name(before, &name.ident, &name.ident, is_handed),
            syn::UseTree::Rename(name) => self.name(before, &name.ident, &name.rename, is_handed),
            syn::UseTree::Glob(_) => self.used.extend(self.absolute(before)),
        }
    }

    fn name(&mut self, before: &[String], name: &syn::Ident, known: &syn::Ident, is_handed: bool) {
        let whole = match name == "self" {
            true => before.to_vec(),
            false => [before, &[name.to_string()]].concat(),
        };
        match self.absolute(&whole) {
            Some(path) if is_handed => self.handed.push((known.to_string(), path)),
            Some(path) => self.used.push(path),
            // `pub use child::Name`.
            None if is_handed => {
                let path = [self.module.clone(), whole].concat();
                self.handed.push((known.to_string(), path));
            }
            None => {}
        }
    }
}

fn is_only_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    })
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_only_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_handed = !matches!(item.vis, syn::Visibility::Inherited);
        self.tree(&item.tree, &[], is_handed);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let whole: Path = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if whole.len() > 1 {
            self.used.extend(self.absolute(&whole));
        }
        visit::visit_path(self, path);
    }
}

/// All modules of a crate, and the names that they re-export.
struct Names {
    modules: BTreeSet<Path>,
    handed: BTreeMap<(Path, String), Path>,
}

impl Names {
    fn new(modules: impl Iterator<Item = Path>, used: &[Uses]) -> Names {
        let mut handed = BTreeMap::new();
        for uses in used {
            for (name, path) in &uses.handed {
                handed.insert((uses.module.clone(), name.clone()), path.clone());
            }
        }
        Names { modules: modules.collect(), handed }
    }

    /// The module that contains the end of a path.
    fn module_of(&self, path: &[String]) -> Path {
        let mut at = path.to_vec();
        for _ in 0..8 {
            let known = (0..=at.len()).rev().find(|&length| self.modules.contains(&at[..length]));
            let length = known.unwrap_or(0);
            let Some(name) = at.get(length) else { return at };
            let Some(next) = self.handed.get(&(at[..length].to_vec(), name.clone())) else {
                return at[..length].to_vec();
            };
            at = next.clone();
        }
        Path::new()
    }
}

/// Arrows from one child to another: the used paths, with the files that use them.
type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// For each parent: which of its children uses which.
fn arrows(names: &Names, used: &[Uses]) -> BTreeMap<Path, Arrows> {
    let mut arrows: BTreeMap<Path, Arrows> = BTreeMap::new();
    for uses in used {
        for path in &uses.used {
            let (from, to) = (&uses.module, names.module_of(path));
            let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
            if common == from.len() || common == to.len() {
                continue;
            }
            let arrows = arrows.entry(from[..common].to_vec()).or_default();
            let arrow = arrows.entry(from[common].clone()).or_default();
            let used = format!("{} ({})", path.join("::"), from.join("::"));
            arrow.entry(to[common].clone()).or_default().insert(used);
        }
    }
    arrows
}

/// The circles among modules, largest first: sets of more than one module that all reach each
/// other.
fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        arrows.keys().map(|name| (name, reached_from(arrows, name))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (name, set) in &reached {
        if !set.contains(name) || circles.iter().flatten().any(|known| known == *name) {
            continue;
        }
        let circle = set
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|back| back.contains(name)))
            .map(|other| (*other).clone())
            .collect();
        circles.push(circle);
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn reached_from<'a>(arrows: &'a Arrows, from: &'a String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(name) = waiting.pop() {
        for next in arrows.get(name).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(next) {
                waiting.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let source = |&(file, text): &(&str, &str)| Source {
            file: format!("crates/a/src/{file}.rs"),
            room: "a".into(),
            text: text.into(),
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let mut findings = Findings::default();
        check(&sources, &mut findings).unwrap();
        findings.list.into_iter().map(|found| (found.file, found.text)).collect()
    }

    #[test]
    fn circle_through_a_name_of_the_root_is_found() {
        let files = [
            ("lib", "mod b; mod c; mod d; pub use b::Thing;"),
            ("b", "use crate::c::f;"),
            ("c", "fn g() { crate::d::h(); }"),
            ("d", "use super::Thing; use crate::c::f as _;"),
        ];
        assert_eq!(of(&files), [("a".to_owned(), "b, c, d".to_owned())]);
    }

    #[test]
    fn children_are_compared_with_their_siblings_alone() {
        let files = [
            ("lib", "mod b; mod c;"),
            ("b", "mod x; mod y; use crate::c::f; pub(crate) use x::X;"),
            ("b/x", "use super::y::g; use crate::b::h;"),
            ("b/y", "use super::X; use super::super::c::f;"),
            ("c", "#[cfg(test)] mod tests { use crate::b::h; }"),
        ];
        assert_eq!(of(&files), [("a b".to_owned(), "x, y".to_owned())]);
    }
}
