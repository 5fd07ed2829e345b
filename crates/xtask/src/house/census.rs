//! The figures of types: each `impl` block is counted for the type that it belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::source::{Block, Definition, Import, Kind, Names, Sources};

/// Links of a chain of imports that are followed, at most.
const LINKS: usize = 8;

/// The figures of a type.
#[derive(Debug, serde::Serialize)]
pub(super) struct Figures {
    /// The type's path, beginning with the crate's name.
    #[serde(rename = "type")]
    pub(super) path: String,
    pub(super) kind: Kind,
    /// The file of the definition.
    pub(super) file: PathBuf,
    pub(super) fields: usize,
    pub(super) methods: usize,
    pub(super) public: usize,
    /// The files with methods of the type.
    pub(super) files: BTreeSet<PathBuf>,
    /// The number of methods that stand in another file than the definition.
    pub(super) away: usize,
}

/// The types of several crates, and the blocks whose type was not found.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) types: Vec<Figures>,
    pub(super) unresolved: Vec<(PathBuf, String)>,
}

/// The definitions of a crate by module and name, to find what a path stands for.
struct Index<'a> {
    definitions: BTreeMap<(&'a [String], &'a str), usize>,
    imports: &'a [Import],
}

impl Census {
    /// Counts a crate. Types without any method are left out.
    pub(super) fn add(&mut self, name: &str, sources: &Sources) {
        let index = Index::new(sources);
        let mut types: Vec<Figures> =
            sources.definitions.iter().map(|definition| Figures::new(name, definition)).collect();
        for block in &sources.blocks {
            match index.type_of(block).and_then(|at| types.get_mut(at)) {
                Some(of) => of.count(block),
                None => self.unresolved.push((block.file.clone(), block.path.join("::"))),
            }
        }
        self.types.extend(types.into_iter().filter(|of| of.methods > 0));
    }

    /// Sorts the types by their number of methods, the widest first.
    pub(super) fn sort(&mut self) {
        self.types.sort_by(|a, b| b.methods.cmp(&a.methods).then_with(|| a.path.cmp(&b.path)));
    }
}

impl Figures {
    fn new(name: &str, definition: &Definition) -> Self {
        let names = [name].into_iter().chain(definition.module.iter().map(String::as_str));
        let names: Vec<&str> = names.chain([definition.name.as_str()]).collect();
        Self {
            path: names.join("::"),
            kind: definition.kind,
            file: definition.file.clone(),
            fields: definition.fields,
            methods: 0,
            public: 0,
            files: BTreeSet::new(),
            away: 0,
        }
    }

    fn count(&mut self, block: &Block) {
        if block.methods == 0 {
            return;
        }
        self.methods += block.methods;
        self.public += block.public;
        self.files.insert(block.file.clone());
        if block.file != self.file {
            self.away += block.methods;
        }
    }
}

impl<'a> Index<'a> {
    fn new(sources: &'a Sources) -> Self {
        let mut definitions = BTreeMap::new();
        for (at, one) in sources.definitions.iter().enumerate() {
            // Alternatives for several targets are one type.
            definitions.entry((one.module.as_slice(), one.name.as_str())).or_insert(at);
        }
        Self { definitions, imports: &sources.imports }
    }

    /// Returns the position of a block's type among the definitions: the one that the path leads to from the
    /// block's module, else the only one of that name in the crate, else the one that `use` lines lead to.
    fn type_of(&self, block: &Block) -> Option<usize> {
        let named = || self.only_one(block.path.last()?);
        let imported = || self.find(&block.module, &block.path, LINKS);
        self.find(&block.module, &block.path, 0).or_else(named).or_else(imported)
    }

    fn only_one(&self, name: &str) -> Option<usize> {
        let mut of_that_name = self.definitions.iter().filter(|((_, other), _)| *other == name);
        let (_, at) = of_that_name.next()?;
        of_that_name.next().is_none().then_some(*at)
    }

    /// Follows a path from a module, through at most `links` imports.
    fn find(&self, module: &[String], path: &[String], links: usize) -> Option<usize> {
        let (name, way) = path.split_last()?;
        let module = go(module, way)?;
        let defined = self.definitions.get(&(module.as_slice(), name.as_str())).copied();
        defined.or_else(|| self.imported(&module, name, links.checked_sub(1)?))
    }

    fn imported(&self, module: &[String], name: &String, links: usize) -> Option<usize> {
        let mut imports = self.imports.iter().filter(|import| import.module == module);
        imports.find_map(|import| match &import.name {
            Some(other) => (other == name).then(|| self.find(module, &import.path, links))?,
            None => {
                let path: Names = import.path.iter().chain([name]).cloned().collect();
                self.find(module, &path, links)
            }
        })
    }
}

/// Returns the module that a path's front leads to from a module. The root has no parent.
fn go(from: &[String], way: &[String]) -> Option<Names> {
    let mut module = from.to_vec();
    for name in way {
        match name.as_str() {
            "crate" => module.clear(),
            "self" => {}
            "super" => _ = module.pop()?,
            name => module.push(name.to_owned()),
        }
    }
    Some(module)
}
