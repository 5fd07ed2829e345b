//! The parts of a crate's sources that the count is about: types, blocks of methods, and imports.

use std::io;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::{Attribute, Fields, ImplItem, Item, Meta, Token, TraitItem, Type, UseTree, Visibility};

/// The path of a module or item in its crate, without the crate's name.
pub(crate) type Names = Vec<String>;

/// A function that returns the text of a source file.
pub(super) type Read<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// The kind of a type's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Struct,
    Enum,
    Union,
    Trait,
}

/// A definition of a type.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) module: Names,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) file: PathBuf,
    /// The number of fields; of an enum, the number of variants.
    pub(super) fields: usize,
}

/// An inherent `impl` block, or the functions that a trait declares.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) module: Names,
    /// The path of the type, as the block spells it.
    pub(super) path: Names,
    pub(super) file: PathBuf,
    pub(super) methods: usize,
    /// The number of those methods that are `pub`; `pub(crate)` and the like do not count.
    pub(super) public: usize,
}

/// A name that a `use` line brings into a module.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) module: Names,
    /// The path of the item; for a glob, that of the module it stands for.
    pub(super) path: Names,
    /// The item's name in this module; `None` for a glob.
    pub(super) name: Option<String>,
}

/// All definitions, blocks and imports of a crate, outside of tests.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) definitions: Vec<Definition>,
    pub(super) blocks: Vec<Block>,
    pub(super) imports: Vec<Import>,
}

/// The module that is being read.
struct Place {
    module: Names,
    file: PathBuf,
    /// The folder of the files of this module's submodules.
    folder: PathBuf,
    /// Whether the module is written within braces, in the file of its parent.
    is_inline: bool,
}

impl Sources {
    /// Reads a crate from its root file on, by its `mod` lines. Test modules are left out, so their files
    /// are not read.
    ///
    /// # Errors
    /// If a file cannot be read, or is not Rust.
    pub(super) fn read(root: &Path, read: Read<'_>) -> io::Result<Self> {
        let mut found = Self::default();
        let folder = root.parent().unwrap_or(root).to_owned();
        let place = Place { module: Names::new(), file: root.to_owned(), folder, is_inline: false };
        found.add_file(&place, &read(root)?, read)?;
        Ok(found)
    }

    fn add_file(&mut self, place: &Place, text: &str, read: Read<'_>) -> io::Result<()> {
        let file = syn::parse_file(text)
            .map_err(|error| io::Error::other(format!("{}: {error}", place.file.display())))?;
        self.add_items(place, &file.items, read)
    }

    fn add_items(&mut self, place: &Place, items: &[Item], read: Read<'_>) -> io::Result<()> {
        for item in items {
            match item {
                Item::Struct(item) if !is_test(&item.attrs) => {
                    self.define(place, &item.ident, Kind::Struct, count(&item.fields));
                }
                Item::Enum(item) if !is_test(&item.attrs) => {
                    self.define(place, &item.ident, Kind::Enum, item.variants.len());
                }
                Item::Union(item) if !is_test(&item.attrs) => {
                    self.define(place, &item.ident, Kind::Union, item.fields.named.len());
                }
                Item::Trait(item) if !is_test(&item.attrs) => self.add_trait(place, item),
                Item::Impl(item) if !is_test(&item.attrs) && item.trait_.is_none() => {
                    self.add_impl(place, item);
                }
                Item::Use(item) if !is_test(&item.attrs) => {
                    self.import(place, &mut Names::new(), &item.tree);
                }
                Item::Mod(item) if !is_test(&item.attrs) => self.add_module(place, item, read)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn define(&mut self, place: &Place, name: &syn::Ident, kind: Kind, fields: usize) {
        let (module, file) = (place.module.clone(), place.file.clone());
        self.definitions.push(Definition { module, name: name.to_string(), kind, file, fields });
    }

    /// Adds a trait. Its functions are as visible as the trait is.
    fn add_trait(&mut self, place: &Place, item: &syn::ItemTrait) {
        self.define(place, &item.ident, Kind::Trait, 0);
        let is_method = |item: &&TraitItem| matches!(item, TraitItem::Fn(one) if !is_test(&one.attrs));
        let methods = item.items.iter().filter(is_method).count();
        let public = if is_public(&item.vis) { methods } else { 0 };
        self.add_block(place, vec![item.ident.to_string()], methods, public);
    }

    fn add_impl(&mut self, place: &Place, item: &syn::ItemImpl) {
        let method = |item: &ImplItem| match item {
            ImplItem::Fn(one) if !is_test(&one.attrs) => Some(is_public(&one.vis)),
            _ => None,
        };
        let methods: Vec<bool> = item.items.iter().filter_map(method).collect();
        let public = methods.iter().filter(|is_public| **is_public).count();
        self.add_block(place, path_of(&item.self_ty), methods.len(), public);
    }

    fn add_block(&mut self, place: &Place, path: Names, methods: usize, public: usize) {
        let (module, file) = (place.module.clone(), place.file.clone());
        self.blocks.push(Block { module, path, file, methods, public });
    }

    fn import(&mut self, place: &Place, path: &mut Names, tree: &UseTree) {
        let mut add = |path: &[String], last: Option<&syn::Ident>, name: Option<String>| {
            let path = path.iter().cloned().chain(last.map(ToString::to_string)).collect();
            self.imports.push(Import { module: place.module.clone(), path, name });
        };
        match tree {
            UseTree::Path(prefix) => {
                path.push(prefix.ident.to_string());
                self.import(place, path, &prefix.tree);
                path.pop();
            }
            UseTree::Name(name) if name.ident == "self" => add(path, None, path.last().cloned()),
            UseTree::Name(name) => add(path, Some(&name.ident), Some(name.ident.to_string())),
            UseTree::Rename(name) => add(path, Some(&name.ident), Some(name.rename.to_string())),
            UseTree::Glob(_) => add(path, None, None),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(place, path, tree)),
        }
    }

    fn add_module(&mut self, place: &Place, item: &syn::ItemMod, read: Read<'_>) -> io::Result<()> {
        let name = item.ident.to_string();
        let module = place.module.iter().chain([&name]).cloned().collect();
        if let Some((_, items)) = &item.content {
            let (file, folder) = (place.file.clone(), place.folder.join(name));
            return self.add_items(&Place { module, file, folder, is_inline: true }, items, read);
        }
        for (file, folder) in place.files_of(&name, &item.attrs) {
            match read(&file) {
                Ok(text) => {
                    return self.add_file(&Place { module, file, folder, is_inline: false }, &text, read);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let place = place.file.display();
        Err(io::Error::new(io::ErrorKind::NotFound, format!("{place}: no file of its module {name}")))
    }
}

impl Place {
    /// Returns the files that a submodule may be in, each with the folder of its own submodules.
    fn files_of(&self, name: &str, attributes: &[Attribute]) -> Vec<(PathBuf, PathBuf)> {
        let beside = if self.is_inline { Some(self.folder.as_path()) } else { self.file.parent() };
        if let (Some(path), Some(beside)) = (path_attribute(attributes), beside) {
            let file = beside.join(path);
            let folder = file.parent().unwrap_or(beside).to_owned();
            return vec![(file, folder)];
        }
        let folder = self.folder.join(name);
        vec![(folder.with_extension("rs"), folder.clone()), (folder.join("mod.rs"), folder)]
    }
}

/// Returns the value of `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Expr::Lit(literal) = &attribute.meta.require_name_value().ok()?.value else { return None };
    match &literal.lit {
        syn::Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}

/// Returns whether an item is compiled for tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    let cfgs = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    cfgs.filter_map(|attribute| attribute.parse_args::<Meta>().ok()).any(|cfg| needs_test(&cfg))
}

fn needs_test(cfg: &Meta) -> bool {
    match cfg {
        Meta::Path(path) => path.is_ident("test") || path.is_ident("doctest"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|all| all.iter().any(needs_test)),
        _ => false,
    }
}

pub(crate) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn count(fields: &Fields) -> usize {
    match fields {
        Fields::Named(fields) => fields.named.len(),
        Fields::Unnamed(fields) => fields.unnamed.len(),
        Fields::Unit => 0,
    }
}

/// Returns the names of a type's path, without its arguments. A trait object has the path of its trait; a
/// type of another form has none.
pub(crate) fn path_of(of: &Type) -> Names {
    let path = match of {
        Type::Path(of) => Some(&of.path),
        Type::TraitObject(of) => of.bounds.iter().find_map(|bound| match bound {
            syn::TypeParamBound::Trait(bound) => Some(&bound.path),
            _ => None,
        }),
        Type::Group(of) => return path_of(&of.elem),
        Type::Paren(of) => return path_of(&of.elem),
        _ => None,
    };
    path.into_iter().flat_map(|path| &path.segments).map(|segment| segment.ident.to_string()).collect()
}
