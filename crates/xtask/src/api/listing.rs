//! The lines of a crate's public interface.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use quote::{ToTokens, quote};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Visibility};

use crate::house::source::{is_public, is_test, path_of};

/// Attributes that users can see the effect of.
const SHOWN: [&str; 4] = ["cfg", "derive", "non_exhaustive", "repr"];

/// A listing in the making.
#[derive(Debug, Default)]
pub(super) struct Listing {
    lines: BTreeSet<String>,
    /// The names of types that are not public. What is implemented for them is not, either.
    private: BTreeSet<String>,
    /// Trait implementations, each with the name of its type.
    implementations: Vec<(Option<String>, String)>,
}

/// The module that is being read.
struct Place {
    /// The public modules on the way to it, each with `::`.
    path: String,
    file: PathBuf,
    /// The folder of the files of its submodules.
    folder: PathBuf,
}

impl Listing {
    /// Lists the crate whose root is this file.
    pub(super) fn of(root: &Path) -> io::Result<BTreeSet<String>> {
        let folder = root.parent().unwrap_or(root).to_owned();
        let mut listing = Self::default();
        listing.add_file(&Place { path: String::new(), file: root.to_owned(), folder })?;
        let Self { mut lines, private, implementations } = listing;
        let is_shown = |name: &Option<String>| name.as_ref().is_none_or(|name| !private.contains(name));
        lines.extend(implementations.into_iter().filter(|(name, _)| is_shown(name)).map(|(_, line)| line));
        Ok(lines)
    }

    fn add_file(&mut self, place: &Place) -> io::Result<()> {
        let wrong = |error| io::Error::other(format!("{}: {error}", place.file.display()));
        let text = fs::read_to_string(&place.file).map_err(|error| wrong(error.to_string()))?;
        let file = syn::parse_file(&text).map_err(|error| wrong(error.to_string()))?;
        file.items.iter().try_for_each(|item| self.add_item(place, item))
    }

    fn add_item(&mut self, place: &Place, item: &Item) -> io::Result<()> {
        let path = &place.path;
        match item {
            Item::Mod(item) if !is_test(&item.attrs) => return self.add_module(place, item),
            Item::Use(item) if !is_test(&item.attrs) => {
                let tree = &item.tree;
                self.add_public(&item.vis, path, &item.attrs, &quote!(pub use #tree));
            }
            Item::Fn(item) => {
                self.add_public(&item.vis, path, &item.attrs, &signature(&item.sig));
            }
            Item::Const(item) => {
                let (name, ty) = (&item.ident, &item.ty);
                self.add_public(&item.vis, path, &item.attrs, &quote!(pub const #name: #ty));
            }
            Item::Type(item) => {
                let (name, generics, ty) = (&item.ident, &item.generics, &item.ty);
                self.add_public(&item.vis, path, &item.attrs, &quote!(pub type #name #generics = #ty));
            }
            Item::Struct(item) => self.add_struct(path, item),
            Item::Enum(item) => self.add_enum(path, item),
            Item::Trait(item) => self.add_trait(path, item),
            Item::Impl(item) if !is_test(&item.attrs) => self.add_impl(item),
            _ => {}
        }
        Ok(())
    }

    fn add_module(&mut self, place: &Place, item: &syn::ItemMod) -> io::Result<()> {
        let (ident, name) = (&item.ident, item.ident.to_string());
        let path = if is_public(&item.vis) { format!("{}{name}::", place.path) } else { place.path.clone() };
        self.add_public(&item.vis, &place.path, &item.attrs, &quote!(pub mod #ident));
        let folder = place.folder.join(&name);
        if let Some((_, items)) = &item.content {
            let place = Place { path, file: place.file.clone(), folder };
            return items.iter().try_for_each(|item| self.add_item(&place, item));
        }
        let beside = folder.with_extension("rs");
        let file = if beside.exists() { beside } else { folder.join("mod.rs") };
        self.add_file(&Place { path, file, folder })
    }

    fn add_struct(&mut self, path: &str, item: &syn::ItemStruct) {
        let (name, generics, limits) = (&item.ident, &item.generics, &item.generics.where_clause);
        if !self.add_type(&item.vis, path, &item.attrs, name, &quote!(pub struct #name #generics #limits)) {
            return;
        }
        self.add_fields(&format!("{path}{name}."), &item.fields, |field| is_public(&field.vis));
    }

    fn add_enum(&mut self, path: &str, item: &syn::ItemEnum) {
        let (name, generics, limits) = (&item.ident, &item.generics, &item.generics.where_clause);
        if !self.add_type(&item.vis, path, &item.attrs, name, &quote!(pub enum #name #generics #limits)) {
            return;
        }
        for variant in &item.variants {
            let place = format!("{path}{name}::");
            self.add(&place, &variant.attrs, &variant.ident.to_string());
            self.add_fields(&format!("{place}{}.", variant.ident), &variant.fields, |_| true);
        }
    }

    /// Adds the public fields of a type, and a line if it has others: then it cannot be built by its fields.
    fn add_fields(&mut self, place: &str, fields: &Fields, is_public: impl Fn(&syn::Field) -> bool) {
        for (nth, field) in fields.iter().enumerate() {
            let (name, ty) = (field.ident.as_ref().map(ToString::to_string), &field.ty);
            if is_public(field) {
                let name = name.unwrap_or_else(|| nth.to_string());
                self.add(place, &field.attrs, &format!("{name}: {}", tidy(ty)));
            } else {
                self.add(place, &[], "(private)");
            }
        }
    }

    /// Adds a trait: implementing it takes all functions without a body.
    fn add_trait(&mut self, path: &str, item: &syn::ItemTrait) {
        let (safety, name, generics) = (&item.unsafety, &item.ident, &item.generics);
        let (above, limits) = (&item.supertraits, &item.generics.where_clause);
        let colon = (!above.is_empty()).then(|| quote!(:));
        let declaration = quote!(pub #safety trait #name #generics #colon #above #limits);
        if !self.add_public(&item.vis, path, &item.attrs, &declaration) {
            return;
        }
        let place = format!("{path}{name}::");
        for part in &item.items {
            match part {
                TraitItem::Fn(part) => {
                    let provided = part.default.as_ref().map(|_| quote!({}));
                    let signature = &part.sig;
                    self.add(&place, &part.attrs, &tidy(&quote!(#signature #provided)));
                }
                TraitItem::Type(part) => self.add(&place, &part.attrs, &tidy(part)),
                TraitItem::Const(part) => self.add(&place, &part.attrs, &tidy(part)),
                _ => {}
            }
        }
    }

    fn add_impl(&mut self, item: &ItemImpl) {
        let (safety, generics, ty, limits) =
            (&item.unsafety, &item.generics, &item.self_ty, &item.generics.where_clause);
        if let Some((of, _)) = &item.trait_ {
            let line = tidy(&quote!(#safety impl #generics #of for #ty #limits));
            self.implementations.push((path_of(ty).pop(), line));
            return;
        }
        let place = tidy(&quote!(impl #generics #ty #limits)) + ": ";
        for part in &item.items {
            match part {
                ImplItem::Fn(part) if !is_test(&part.attrs) => {
                    self.add_public(&part.vis, &place, &part.attrs, &signature(&part.sig));
                }
                ImplItem::Const(part) if !is_test(&part.attrs) => {
                    let (name, ty) = (&part.ident, &part.ty);
                    self.add_public(&part.vis, &place, &part.attrs, &quote!(pub const #name: #ty));
                }
                _ => {}
            }
        }
    }

    /// Adds a type, or its name to the private ones. Returns whether it is public.
    fn add_type(
        &mut self,
        visibility: &Visibility,
        place: &str,
        attributes: &[Attribute],
        name: &syn::Ident,
        declaration: &impl ToTokens,
    ) -> bool {
        let added = self.add_public(visibility, place, attributes, declaration);
        if !added {
            self.private.insert(name.to_string());
        }
        added
    }

    /// Adds a line for an item, if it is public. Returns whether it is.
    fn add_public(
        &mut self,
        visibility: &Visibility,
        place: &str,
        attributes: &[Attribute],
        declaration: &impl ToTokens,
    ) -> bool {
        let is_public = is_public(visibility) && !is_test(attributes);
        if is_public {
            self.add(place, attributes, &tidy(declaration));
        }
        is_public
    }

    fn add(&mut self, place: &str, attributes: &[Attribute], declaration: &str) {
        let shown = |attribute: &&Attribute| SHOWN.iter().any(|name| attribute.path().is_ident(name));
        let attributes: String = attributes.iter().filter(shown).map(|one| tidy(one) + " ").collect();
        self.lines.insert(format!("{place}{attributes}{declaration}"));
    }
}

/// Returns a public function without its body.
fn signature(signature: &syn::Signature) -> impl ToTokens {
    quote!(pub #signature)
}

/// Returns tokens as people write them, as far as blanks are concerned.
fn tidy(tokens: &impl ToTokens) -> String {
    const BLANKS: [(&str, &str); 22] = [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" : ", ": "),
        (" ,", ","),
        (",)", ")"),
        (" < ", "<"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("[ ", "["),
        (" ]", "]"),
        ("& ", "&"),
        (" ;", ";"),
        ("{ ", "{"),
        (" }", "}"),
        ("->(", "-> ("),
        (":(", ": ("),
        ("# [", "#["),
    ];
    let text = tokens.to_token_stream().to_string();
    BLANKS.iter().fold(text, |text, (loose, tight)| text.replace(loose, tight))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    fn listed(source: &str) -> Vec<String> {
        let mut listing = Listing::default();
        let place = Place { path: String::new(), file: PathBuf::new(), folder: PathBuf::new() };
        for item in syn::parse_file(source).unwrap().items {
            listing.add_item(&place, &item).unwrap();
        }
        listing.lines.into_iter().collect()
    }

    #[test]
    fn functions_and_constants_are_listed_without_bodies() {
        assert_eq!(
            listed("pub const A: u32 = 1; const B: u32 = 2; pub(crate) fn b() {} fn c() {}"),
            ["pub const A: u32"]
        );
        assert_eq!(
            listed("pub const fn a<T: Copy>(of: &[T], to: (u8, &'static str)) -> Option<(T, u8)> { None }"),
            ["pub const fn a<T: Copy>(of: &[T], to: (u8, &'static str)) -> Option<(T, u8)>"]
        );
    }

    #[test]
    fn types_are_listed_with_their_public_fields_and_variants() {
        assert_eq!(
            listed("#[derive(Debug, Clone)] #[doc = \"x\"] pub struct A<T> { pub a: T, b: u8 }"),
            ["#[derive(Debug, Clone)] pub struct A<T>", "A.(private)", "A.a: T"]
        );
        assert_eq!(listed("pub struct A(pub u32);"), ["A.0: u32", "pub struct A"]);
        assert_eq!(
            listed("#[non_exhaustive] pub enum A { B, C(u8), D { d: u8 } } enum E { F }"),
            ["#[non_exhaustive] pub enum A", "A::B", "A::C", "A::C.0: u8", "A::D", "A::D.d: u8"]
        );
    }

    #[test]
    fn methods_are_listed_with_the_limits_of_their_block() {
        assert_eq!(
            listed("impl<T: Copy> A<T> { pub const B: Self = A; pub fn a(&self) {} fn b() {} }"),
            ["impl<T: Copy> A<T>: pub const B: Self", "impl<T: Copy> A<T>: pub fn a(&self)"]
        );
        assert_eq!(
            listed("pub unsafe trait A: Send + 'static { type B; fn a(&self); fn b(&self) -> u8 { 1 } }"),
            ["A::fn a(&self)", "A::fn b(&self) -> u8 {}", "A::type B;", "pub unsafe trait A: Send + 'static"]
        );
    }

    #[test]
    fn private_modules_and_tests_do_not_show() {
        assert_eq!(
            listed(
                "mod a { pub struct A; } pub mod b { pub struct B; } #[cfg(test)] pub mod c { pub struct C; }"
            ),
            ["b::pub struct B", "pub mod b", "pub struct A"]
        );
        assert_eq!(
            listed("#[cfg(feature = \"x\")] pub use a::{B, c::D};"),
            ["#[cfg(feature = \"x\")] pub use a::{B, c::D}"]
        );
    }
}
