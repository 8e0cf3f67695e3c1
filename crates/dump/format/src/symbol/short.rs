//! Shortens a decoded C++ or Rust name.

/// Maximum characters of a short name with its template arguments. Longer ones have `<...>` instead.
const MAX_SHORT: usize = 48;
/// Maximum nesting of template arguments.
const MAX_DEPTH: usize = 48;

/// Kernels that apply a function of their template arguments to every element. That function is the better name.
const LAUNCHERS: [&str; 4] =
    ["elementwise_kernel", "reduce_kernel", "multi_tensor_apply_kernel", "for_each_kernel"];
/// Kernels whose first type argument is the better name.
const SHELLS: [&str; 4] = ["Kernel", "Kernel2", "device_kernel", "device_kernel_wrapper"];
/// Types around such a function.
const WRAPPERS: [&str; 6] = [
    "gpu_kernel_impl",
    "gpu_kernel_impl_nocast",
    "BinaryFunctor",
    "ReduceOp",
    "func_wrapper_t",
    "TensorListMetadata",
];

/// A name without its namespaces.
#[derive(Debug, Default)]
struct Name {
    /// Its last part with a name of its own: not a lambda, not an anonymous namespace, not `operator()`.
    base: String,
    arguments: Vec<Name>,
    /// What follows: `*`, ` const&`.
    suffix: String,
}

/// The short form; `None` if the name has an unknown form.
pub(super) fn shortened(full: &str) -> Option<String> {
    let mut parser = Parser { rest: full, depth: 0 };
    let name = parser.name()?;
    // A conversion or an attribute such as ` [clone .0]` may follow.
    let name = name.meant();
    (!name.base.is_empty()).then(|| name.text())
}

impl Name {
    /// This name, or the function that it applies.
    fn meant(&self) -> &Name {
        let is_launcher = LAUNCHERS.iter().any(|launcher| self.base.contains(launcher));
        let inner = match is_launcher || SHELLS.contains(&self.base.as_str()) {
            true => self.arguments.iter().find_map(Name::function),
            false => None,
        };
        inner.unwrap_or(self)
    }

    /// The function inside wrappers, if this is a type that is named in the program.
    fn function(&self) -> Option<&Name> {
        if WRAPPERS.contains(&self.base.as_str()) {
            return self.arguments.iter().find_map(Name::function);
        }
        let is_plain = self.base.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        (is_plain && !is_builtin(&self.base)).then_some(self)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        if text.len() > MAX_SHORT && !self.arguments.is_empty() {
            text = format!("{}<...>", self.base);
        }
        text
    }

    fn write(&self, text: &mut String) {
        text.push_str(&self.base);
        if !self.arguments.is_empty() {
            text.push('<');
            for (at, argument) in self.arguments.iter().enumerate() {
                if at > 0 {
                    text.push_str(", ");
                }
                argument.write(text);
            }
            text.push('>');
        }
        text.push_str(&self.suffix);
    }
}

fn is_builtin(name: &str) -> bool {
    const BUILTIN: [&str; 13] = [
        "bool", "char", "signed", "unsigned", "short", "int", "long", "float", "double", "void", "half",
        "true", "false",
    ];
    name.split(' ').next().is_some_and(|word| BUILTIN.contains(&word))
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

impl Parser<'_> {
    /// Parts joined by `::`. Parameters after a part are skipped.
    fn name(&mut self) -> Option<Name> {
        let mut name = Name::default();
        loop {
            if let Some(part) = self.part()? {
                name = part;
            }
            self.skip_parameters()?;
            let suffix = self.until(&['<', '>', ',', '(', ')', '{', '}', ':', '\'']);
            if let Some(rest) = self.rest.strip_prefix("::") {
                self.rest = rest;
            } else if self.rest.starts_with(':') {
                return None;
            } else {
                if !name.base.is_empty() && is_qualifier(&suffix) {
                    name.suffix = suffix.trim_end().to_owned();
                }
                return Some(name);
            }
        }
    }

    /// One part; `None` inside if it has no name of its own.
    fn part(&mut self) -> Option<Option<Name>> {
        for nameless in ["(anonymous namespace)", "operator()"] {
            if let Some(rest) = self.rest.strip_prefix(nameless) {
                self.rest = rest;
                return Some(None);
            }
        }
        if self.rest.starts_with('{') {
            self.skip_brackets('{', '}')?;
            return Some(None);
        }
        if self.rest.starts_with('\'') {
            let end = self.rest[1..].find('\'')? + 2;
            self.rest = &self.rest[end..];
            self.until(&['<', '>', ',', '(', ')', ':']);
            return Some(None);
        }
        let mut base = self.until(&['<', '>', ',', '(', ')', '{', '}', ':', '\'']);
        if base.ends_with("operator") {
            let symbol = self.rest.find(|c: char| !"<>=!+-*/%&|^~[],".contains(c)).unwrap_or(self.rest.len());
            base.push_str(&self.rest[..symbol]);
            self.rest = &self.rest[symbol..];
        }
        let base = base.trim().to_owned();
        let arguments = if self.rest.starts_with('<') { self.arguments()? } else { Vec::new() };
        Some((!base.is_empty()).then_some(Name { base, arguments, suffix: String::new() }))
    }

    fn arguments(&mut self) -> Option<Vec<Name>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut arguments = Vec::new();
        loop {
            self.rest = self.rest[1..].trim_start();
            if !self.rest.starts_with('>') {
                arguments.push(self.name()?);
            }
            match self.rest.chars().next()? {
                ',' => {}
                '>' => break,
                _ => return None,
            }
        }
        self.rest = &self.rest[1..];
        self.depth -= 1;
        // An empty list of a parameter pack says nothing.
        arguments.retain(|argument| !argument.base.is_empty());
        Some(arguments)
    }

    fn skip_parameters(&mut self) -> Option<()> {
        while self.rest.starts_with('(') {
            self.skip_brackets('(', ')')?;
        }
        Some(())
    }

    fn skip_brackets(&mut self, open: char, close: char) -> Option<()> {
        let mut depth = 0_usize;
        for (at, letter) in self.rest.char_indices() {
            if letter == open {
                depth += 1;
            } else if letter == close {
                depth -= 1;
            }
            if depth == 0 {
                self.rest = &self.rest[at + close.len_utf8()..];
                return Some(());
            }
        }
        None
    }

    fn until(&mut self, ends: &[char]) -> String {
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (before, rest) = self.rest.split_at(end);
        self.rest = rest;
        before.to_owned()
    }
}

/// Whether a suffix only qualifies a type, as `*`, `&` and ` const`.
fn is_qualifier(suffix: &str) -> bool {
    !suffix.is_empty()
        && suffix.replace("const", "").chars().all(|c| " *&".contains(c))
        && suffix.trim() != "const"
}
