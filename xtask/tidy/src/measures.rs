//! Figures of one Rust file: lengths, fields, documented items, errors, reasons of `unsafe`.

use crate::comments::comments;
use crate::{Failure, Finding, Findings, Rule, Source};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Largest number of lines of a file.
const FILE_LINES: usize = 600;
/// Largest number of lines of a function.
const FUNCTION_LINES: usize = 70;
/// Largest number of lines between an `unsafe` block and its reason above.
const REASON_WITHIN: usize = 4;

/// Figures of a crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Number of files.
    pub files: usize,
    /// Number of lines.
    pub lines: usize,
    /// Number of public items, including fields and variants, outside of tests.
    pub public: usize,
    /// Number of public items with a doc comment.
    pub documented: usize,
    /// Number of fields and name of the struct with the most fields.
    pub largest_struct: Option<(usize, String)>,
}

pub(crate) fn check(source: &Source, findings: &mut Findings) -> Result<(), Failure> {
    let lines = source.text.lines().count();
    let room = findings.room(&source.room);
    room.files += 1;
    room.lines += lines;
    let file = syn::parse_file(&source.text)
        .map_err(|error| Failure::Parse(source.file.clone(), error))?;
    let reasons: Vec<usize> =
        comments(&source.text).into_iter().map(|comment| comment.line).collect();
    let mut visitor = Visitor { source, reasons, found: Vec::new(), room };
    visitor.visit_file(&file);
    let found = visitor.found;
    findings.list.extend(found);
    if lines > FILE_LINES {
        let text = format!("{lines} lines, and {FILE_LINES} are the limit");
        findings.list.push(source.finding(Rule::File, lines, lines, text));
    }
    Ok(())
}

impl Source {
    pub(crate) fn finding(&self, rule: Rule, line: usize, amount: usize, text: String) -> Finding {
        Finding { rule, room: self.room.clone(), file: self.file.clone(), line, amount, text }
    }
}

struct Visitor<'a> {
    source: &'a Source,
    /// Numbers of the lines with a comment.
    reasons: Vec<usize>,
    found: Vec<Finding>,
    room: &'a mut Room,
}

impl Visitor<'_> {
    fn function(&mut self, signature: &syn::Signature, whole: proc_macro2::Span) {
        let (start, end) = (signature.span().start().line, whole.end().line);
        let lines = end - start + 1;
        let name = &signature.ident;
        if lines > FUNCTION_LINES {
            let text = format!("`{name}` has {lines} lines, and {FUNCTION_LINES} are the limit");
            self.found.push(self.source.finding(Rule::Function, start, lines, text));
        }
        if let syn::ReturnType::Type(_, returned) = &signature.output
            && !self.source.is_test()
            && is_text_error(returned)
        {
            let text = format!("`{name}` reports an error as a `String`");
            self.found.push(self.source.finding(Rule::Error, start, 1, text));
        }
    }

    fn item(&mut self, visibility: &syn::Visibility, attributes: &[syn::Attribute]) {
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.public(attributes);
        }
    }

    fn public(&mut self, attributes: &[syn::Attribute]) {
        if !self.source.is_test() {
            self.room.public += 1;
            self.room.documented += usize::from(is_documented(attributes));
        }
    }

    fn reason(&mut self, span: proc_macro2::Span) {
        let line = span.start().line;
        let near = line.saturating_sub(REASON_WITHIN)..=line + 1;
        if !self.source.is_test() && !self.reasons.iter().any(|at| near.contains(at)) {
            let text = "no comment gives the reason of this `unsafe`".to_owned();
            self.found.push(self.source.finding(Rule::Unsafe, line, 1, text));
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.item(&item.vis, &item.attrs);
        self.function(&item.sig, item.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.item(&item.vis, &item.attrs);
        self.function(&item.sig, item.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig, item.span());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.item(&item.vis, &item.attrs);
        let (fields, name) = (item.fields.len(), item.ident.to_string());
        if !self.source.is_test()
            && self.room.largest_struct.as_ref().is_none_or(|(most, _)| fields > *most)
        {
            self.room.largest_struct = Some((fields, name));
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if field.ident.is_some() {
            self.item(&field.vis, &field.attrs);
        }
        visit::visit_field(self, field);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.item(&item.vis, &item.attrs);
        if matches!(item.vis, syn::Visibility::Public(_)) {
            item.variants.iter().for_each(|variant| self.public(&variant.attrs));
        }
        visit::visit_item_enum(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.item(&item.vis, &item.attrs);
        visit::visit_item_const(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.item(&item.vis, &item.attrs);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.item(&item.vis, &item.attrs);
        visit::visit_item_type(self, item);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.reason(block.span());
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.unsafety.is_some() {
            self.reason(item.span());
        }
        visit::visit_item_impl(self, item);
    }
}

fn is_documented(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("doc"))
}

/// True for `Result<_, String>`.
fn is_text_error(returned: &syn::Type) -> bool {
    let syn::Type::Path(path) = returned else { return false };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Result") else {
        return false;
    };
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    let error = arguments.args.iter().nth(1);
    matches!(error, Some(syn::GenericArgument::Type(syn::Type::Path(path)))
        if path.path.is_ident("String"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Findings {
        let source =
            Source { file: "crates/a/src/b.rs".into(), room: "a".into(), text: text.into() };
        let mut findings = Findings::default();
        check(&source, &mut findings).unwrap();
        findings
    }

    #[test]
    fn long_functions_text_errors_and_unsafe_without_reason_are_found() {
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(69));
        let text = format!(
            "{long}\nfn e() -> Result<u8, String> {{\n    unsafe {{ h() }}\n}}\n\n\n\n\n\
             fn ok() -> Result<u8, Error> {{\n    // SAFETY: for a reason.\n    unsafe {{ h() }}\n}}\n"
        );
        let found: Vec<(Rule, usize)> =
            of(&text).list.into_iter().map(|found| (found.rule, found.line)).collect();
        assert_eq!(found, [(Rule::Function, 1), (Rule::Error, 73), (Rule::Unsafe, 74)]);
    }

    #[test]
    fn public_items_are_counted_with_their_documents() {
        let findings = of("/// A.\npub struct A {\n    pub b: u8,\n    c: u8,\n}\nfn d() {}\n");
        let room = &findings.rooms["a"];
        assert_eq!((room.public, room.documented), (2, 1));
        assert_eq!(room.largest_struct, Some((2, "A".into())));
    }
}
