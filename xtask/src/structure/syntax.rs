//! What one Rust source says about structure: its modules, their items and imports, the paths that its code names, and
//! the length of its functions.
//!
//! `syn` parses the text. Macro arguments are not syntax yet, so their tokens are searched for paths (`a::b`) and for
//! calls on `self`. Code under `#[cfg(test)]` is left out, because tests may import anything.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A path as it is written, segment by segment: `["super", "state", "Register"]`.
pub type Path = Vec<String>;

/// A module in a source. The first of a [`Source`] is the file itself; others are written inside it in braces.
#[derive(Default)]
pub struct Module {
    /// Names from the file's own module down to this one; empty for the file itself.
    pub inside: Path,
    /// Names of the functions, types, constants, traits and macros that it defines.
    pub items: Vec<String>,
    /// Modules that have a file of their own.
    pub files: Vec<String>,
    /// Imports.
    pub imports: Vec<Import>,
    /// Paths in its code.
    pub paths: Vec<Path>,
    /// Methods and associated functions: the type's path and the name.
    pub methods: Vec<(Path, String)>,
    /// `self.name(...)` and `Self::name(...)`: the type's path and the name.
    pub self_calls: Vec<(Path, String)>,
}

/// One name that a `use` brings into a module.
pub struct Import {
    /// The name in this module, `*` for all names.
    pub name: String,
    /// What it names.
    pub target: Path,
    /// `pub use` and `pub(crate) use`: others may import the name from here.
    pub public: bool,
}

/// A function and where it is.
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// Lines from there to its closing brace.
    pub lines: usize,
    /// Its body is one `match` or one literal, and each entry fits on [`TABLE_ENTRY_LINES`]. Only told of functions
    /// with more than [`FUNCTION_LINES`] lines.
    pub table: bool,
}

/// What a source says.
pub struct Source {
    /// The file's own module, then those inside it.
    pub modules: Vec<Module>,
    /// All functions, those of tests too.
    pub functions: Vec<Function>,
    /// Lines of constants, statics and item macros. Only counted in files with more than [`FILE_LINES`] lines.
    pub table_lines: usize,
}

/// Lines that a source may have before it is listed as long.
pub const FILE_LINES: usize = 600;
/// Lines that a function may have before it is listed as long.
pub const FUNCTION_LINES: usize = 60;
/// Lines that an entry of a flat table may have.
const TABLE_ENTRY_LINES: usize = 3;

/// Reads a source.
///
/// # Errors
/// Returns what `syn` says when the text is not Rust.
pub fn read(text: &str) -> Result<Source, String> {
    let file = syn::parse_file(text).map_err(|error| format!("line {}: {error}", error.span().start().line))?;
    let mut reader = Reader { modules: vec![Module::default()], current: 0, of: None };
    reader.visit_file(&file);
    let mut functions = Functions(Vec::new());
    functions.visit_file(&file);
    let is_long = text.lines().count() > FILE_LINES;
    let tables = file.items.iter().filter(|item| is_long && is_table(item));
    let table_lines = tables.map(lines).sum();
    Ok(Source { modules: reader.modules, functions: functions.0, table_lines })
}

fn is_table(item: &syn::Item) -> bool {
    match item {
        syn::Item::Const(_) | syn::Item::Static(_) => true,
        syn::Item::Macro(item) => item.ident.is_none(),
        _ => false,
    }
}

/// Lines of a node. It is printed to find its span, so this is slow.
fn lines(node: &impl Spanned) -> usize {
    node.span().end().line + 1 - node.span().start().line
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || matches!(&attribute.meta, syn::Meta::List(list)
                if list.path.is_ident("cfg") && list.tokens.to_string().starts_with("test"))
    })
}

fn segments(path: &syn::Path) -> Path {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

struct Reader {
    modules: Vec<Module>,
    current: usize,
    /// The type of the `impl` around.
    of: Option<Path>,
}

impl Reader {
    fn module(&mut self) -> &mut Module {
        &mut self.modules[self.current]
    }

    fn import(&mut self, tree: &syn::UseTree, mut target: Path, public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                target.push(path.ident.to_string());
                self.import(&path.tree, target, public);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, target.clone(), public);
                }
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                let name = target.last().cloned().unwrap_or_default();
                self.module().imports.push(Import { name, target, public });
            }
            syn::UseTree::Name(name) => {
                target.push(name.ident.to_string());
                self.module().imports.push(Import { name: name.ident.to_string(), target, public });
            }
            syn::UseTree::Rename(rename) => {
                target.push(rename.ident.to_string());
                self.module().imports.push(Import { name: rename.rename.to_string(), target, public });
            }
            syn::UseTree::Glob(_) => self.module().imports.push(Import { name: "*".to_owned(), target, public }),
        }
    }

    fn self_call(&mut self, name: String) {
        if let Some(of) = self.of.clone() {
            self.module().self_calls.push((of, name));
        }
    }

    fn path(&mut self, path: Path) {
        if let [own, name, ..] = &path[..]
            && own == "Self"
        {
            self.self_call(name.clone());
        }
        self.module().paths.push(path);
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mut path = Path::new();
        for (at, tree) in trees.iter().enumerate() {
            match tree {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(name) => {
                    if !(at >= 2 && is_colons(&trees[at - 2..at])) {
                        path.clear();
                    }
                    path.push(name.to_string());
                    let more = trees.get(at + 1..at + 3).is_some_and(is_colons);
                    if at >= 2 && is_self_dot(&trees[at - 2..at]) && is_call(trees.get(at + 1)) {
                        self.self_call(name.to_string());
                    } else if !more && !is_dot(at.checked_sub(1).map(|at| &trees[at])) {
                        self.path(std::mem::take(&mut path));
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_dot(tree: Option<&TokenTree>) -> bool {
    matches!(tree, Some(TokenTree::Punct(sign)) if sign.as_char() == '.')
}

fn is_colons(trees: &[TokenTree]) -> bool {
    trees.iter().all(|tree| matches!(tree, TokenTree::Punct(sign) if sign.as_char() == ':'))
}

fn is_self_dot(trees: &[TokenTree]) -> bool {
    matches!(&trees[0], TokenTree::Ident(name) if name == "self") && is_dot(trees.get(1))
}

fn is_call(tree: Option<&TokenTree>) -> bool {
    matches!(tree, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

fn item_name(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            self.module().items.extend(item_name(item));
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        let Some((_, items)) = &item.content else { return self.module().files.push(name) };
        let mut inside = self.module().inside.clone();
        inside.push(name);
        self.modules.push(Module { inside, ..Module::default() });
        let before = std::mem::replace(&mut self.current, self.modules.len() - 1);
        for item in items {
            self.visit_item(item);
        }
        self.current = before;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let public = !matches!(item.vis, syn::Visibility::Inherited);
        self.import(&item.tree, Path::new(), public);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = match &*item.self_ty {
            syn::Type::Path(of) => Some(segments(&of.path)),
            _ => None,
        };
        for inner in &item.items {
            if let (syn::ImplItem::Fn(method), Some(of)) = (inner, &of) {
                self.module().methods.push((of.clone(), method.sig.ident.to_string()));
            }
        }
        let before = std::mem::replace(&mut self.of, of);
        visit::visit_item_impl(self, item);
        self.of = before;
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if matches!(&*call.receiver, syn::Expr::Path(path) if path.path.is_ident("self")) {
            self.self_call(call.method.to_string());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(segments(path));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.path(segments(&call.path));
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let line = signature.fn_token.span.start().line;
        let lines = block.brace_token.span.close().end().line + 1 - line;
        let table = lines > FUNCTION_LINES && is_flat(block);
        self.0.push(Function { name: signature.ident.to_string(), line, lines, table });
    }
}

/// Whether a body is one expression with short entries.
fn is_flat(block: &syn::Block) -> bool {
    let [syn::Stmt::Expr(expression, None)] = &block.stmts[..] else { return false };
    match expression {
        syn::Expr::Match(table) => table.arms.iter().all(|arm| lines(arm) <= TABLE_ENTRY_LINES),
        syn::Expr::Struct(table) => table.fields.iter().all(|field| lines(field) <= TABLE_ENTRY_LINES),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}
