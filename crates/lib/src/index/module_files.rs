//! The directories that module files add to `LD_LIBRARY_PATH`: those of Environment Modules (Tcl)
//! and of Lmod (Lua, Tcl).
//!
//! Nothing is run. Literal paths, variables with literal values and `pathJoin` are understood; a
//! line that names the variable in another way is reported. Each branch of a condition counts,
//! because a directory too many does no harm.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use bstr::BString;

use crate::index::options::Options;
use crate::path::{dirs_of, path_bytes};

const VARIABLE: &str = "LD_LIBRARY_PATH";
/// Longer files are no module files.
const LONGEST: u64 = 1 << 20;
/// The number of `pathJoin` in each other.
const DEPTH: usize = 16;
/// Module trees have a few levels: a name, a version, an architecture.
const DEEPEST: usize = 8;

/// The result of reading module trees.
#[derive(Debug, Default)]
pub struct ModuleFiles {
    /// The directories, each once.
    pub dirs: Vec<PathBuf>,
    /// Lines with the variable that are not understood, as `FILE:LINE`.
    pub not_understood: Vec<BString>,
}

/// Reads the module trees: the named ones, or those of this session. Modules of a session may
/// name directories of other software, so those must be below the stores.
pub(super) fn of_session(options: &Options, stores: &[PathBuf]) -> ModuleFiles {
    if !options.module_trees.is_empty() {
        return read(&options.module_trees);
    }
    let list = env::var_os("MODULEPATH").filter(|_| options.in_session && !stores.is_empty());
    let mut found = read(&dirs_of(list));
    found.dirs.retain(|dir| stores.iter().any(|store| dir.starts_with(store)));
    ModuleFiles { not_understood: Vec::new(), ..found }
}

/// Reads the module files below these trees. What cannot be read is left out.
#[must_use]
pub fn read(trees: &[PathBuf]) -> ModuleFiles {
    let mut found = ModuleFiles::default();
    trees.iter().for_each(|tree| walk(tree, 0, &mut found));
    let mut seen = std::collections::HashSet::new();
    found.dirs.retain(|dir| seen.insert(dir.clone()));
    found
}

fn walk(dir: &Path, depth: usize, found: &mut ModuleFiles) {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        // A link to a directory is a second name, or leads out of the tree.
        if path.is_dir() {
            if depth < DEEPEST && !path.is_symlink() {
                walk(&path, depth + 1, found);
            }
        } else if path.metadata().is_ok_and(|facts| facts.is_file() && facts.len() <= LONGEST)
            && let Ok(text) = fs::read_to_string(&path)
        {
            read_file(&path, &text, found);
        }
    }
}

fn read_file(path: &Path, text: &str, found: &mut ModuleFiles) {
    let is_lua = path.extension().is_some_and(|extension| extension == "lua");
    if !is_lua && !text.starts_with("#%Module") {
        return;
    }
    let mut variables = HashMap::new();
    for (number, line) in lines(text) {
        let said = if is_lua { lua(&line, &mut variables) } else { tcl(&line, &mut variables) };
        match said {
            Some(lists) => found.dirs.extend(dirs_of(&lists)),
            None => {
                let line = format!(":{number}");
                let place = [path_bytes(path).as_slice(), line.as_bytes()].concat();
                found.not_understood.push(place.into());
            }
        }
    }
}

/// Returns the lines with their numbers; a backslash at the end of one continues it.
fn lines(text: &str) -> Vec<(usize, String)> {
    let text = text.replace("\r\n", "\n") + "\n";
    let mut next = 1;
    let whole = text.replace("\\\n", "\0");
    let number = |line: &str| {
        let number = next;
        next += 1 + line.matches('\0').count();
        (number, line.replace('\0', ""))
    };
    whole.lines().map(number).collect()
}

/// Values by name; none if they are not known.
type Variables = HashMap<String, Option<String>>;

/// Lists of directories that the variable gets in a line, none in most lines; `None` for a value that is not known.
type Said = Option<Vec<String>>;

fn tcl(line: &str, variables: &mut Variables) -> Said {
    let words = tcl_words(line);
    let values: &[&str] = match words.as_slice() {
        ["set", name, word, ..] => {
            let value = tcl_value(word, variables);
            variables.insert((*name).to_owned(), value);
            &[]
        }
        ["setenv" | "pushenv", VARIABLE, values @ ..] => values,
        ["prepend-path" | "append-path", rest @ ..] => {
            let mut rest = rest;
            while let [option, after @ ..] = rest
                && option.starts_with('-')
            {
                // The delimiter is a word of its own unless there is an equals sign.
                let takes_word = matches!(*option, "-d" | "--delim");
                rest = if takes_word { after.get(1..).unwrap_or_default() } else { after };
            }
            rest.strip_prefix(&[VARIABLE]).unwrap_or_default()
        }
        _ => &[],
    };
    values.iter().map(|word| tcl_value(word, variables)).collect()
}

/// Splits a line of Tcl into its words, with the braces or quotes around them.
fn tcl_words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next().filter(|&first| first != '#' && first != ';') {
        let end = match first {
            '{' => rest.find('}').map(|at| at + 1),
            '"' => rest[1..].find('"').map(|at| at + 2),
            '[' => rest.find(']').map(|at| at + 1),
            _ => rest.find(|c: char| c.is_whitespace() || c == ';'),
        };
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        words.push(word);
        rest = after.trim_start();
    }
    words
}

fn tcl_value(word: &str, variables: &Variables) -> Option<String> {
    if let Some(literal) = word.strip_prefix('{') {
        return literal.strip_suffix('}').map(ToOwned::to_owned);
    }
    let mut rest = word.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(word);
    let mut value = String::new();
    while let Some(at) = rest.find(['$', '[', '\\']) {
        value.push_str(&rest[..at]);
        let named = rest[at..].strip_prefix('$')?;
        let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
        let (name, after) = match named.strip_prefix('{') {
            Some(named) => named.split_once('}')?,
            None => named.split_at(named.find(|c| !is_of_name(c)).unwrap_or(named.len())),
        };
        // An element of an array, such as `$env(HOME)`.
        if after.starts_with('(') {
            return None;
        }
        value.push_str(variables.get(name)?.as_ref()?);
        rest = after;
    }
    value.push_str(rest);
    Some(value)
}

fn lua(line: &str, variables: &mut Variables) -> Said {
    const COMMANDS: [&str; 4] = ["prepend_path", "append_path", "setenv", "pushenv"];
    let line = line.split("--").next().unwrap_or_default().trim();
    if let Some((name, value)) = line.split_once('=')
        && let name = name.trim().trim_start_matches("local ").trim()
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    {
        let value = lua_value(value, variables, DEPTH);
        let value = value.filter(|(_, rest)| rest.trim_end_matches(';').is_empty());
        variables.insert(name.to_owned(), value.map(|(value, _)| value));
        return Some(Vec::new());
    }
    let call = COMMANDS.iter().find_map(|command| line.split_once(command));
    let Some((_, arguments)) = call.filter(|_| line.contains(VARIABLE)) else {
        return Some(Vec::new());
    };
    let (name, rest) =
        lua_value(arguments.trim_start().strip_prefix(['(', '{'])?, variables, DEPTH)?;
    match name == VARIABLE {
        true => Some(vec![lua_value(rest.strip_prefix(',')?, variables, DEPTH)?.0]),
        false => Some(Vec::new()),
    }
}

/// Reads an expression of Lua: strings, variables, `pathJoin` in at most `depth` others, and `..`. Returns the text
/// after it, too.
fn lua_value<'t>(text: &'t str, variables: &Variables, depth: usize) -> Option<(String, &'t str)> {
    let (mut value, mut rest) = lua_term(text, variables, depth)?;
    while let Some(after) = rest.strip_prefix("..") {
        let (more, after) = lua_term(after, variables, depth)?;
        value.push_str(&more);
        rest = after;
    }
    Some((value, rest))
}

fn lua_term<'t>(text: &'t str, variables: &Variables, depth: usize) -> Option<(String, &'t str)> {
    let text = text.trim_start();
    let between = |open: &str, close: &str| text.strip_prefix(open)?.split_once(close);
    let (value, rest) =
        if let Some((value, rest)) = between("\"", "\"").or_else(|| between("'", "'")) {
            ((!value.contains('\\')).then(|| value.to_owned())?, rest)
        } else if let Some((value, rest)) = between("[[", "]]") {
            (value.to_owned(), rest)
        } else if let Some(arguments) = text.strip_prefix("pathJoin") {
            lua_joined(arguments, variables, depth.checked_sub(1)?)?
        } else {
            let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
            let (name, after) = text.split_at(end);
            // A call or a field.
            let is_plain = !after.starts_with(['(', '[', ':'])
                && (!after.starts_with('.') || after.starts_with(".."));
            (variables.get(name).filter(|_| is_plain)?.clone()?, after)
        };
    Some((value, rest.trim_start()))
}

/// Reads the arguments of `pathJoin`.
fn lua_joined<'t>(
    arguments: &'t str,
    variables: &Variables,
    depth: usize,
) -> Option<(String, &'t str)> {
    let mut parts = Vec::new();
    let mut next = arguments.trim_start().strip_prefix('(');
    let mut rest = "";
    while let Some(text) = next {
        let (part, after) = lua_value(text, variables, depth)?;
        parts.push(part);
        (next, rest) = (after.strip_prefix(','), after);
    }
    Some((parts.join("/").replace("//", "/"), rest.strip_prefix(')')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> ModuleFiles {
        let mut found = ModuleFiles::default();
        read_file(Path::new(name), text, &mut found);
        found
    }

    #[test]
    fn what_spack_easybuild_and_people_write_is_understood() {
        let tcl = "#%Module1.0\n# prepend-path LD_LIBRARY_PATH /no\nset root /apps/x\n\
                   set lib \"$root/lib\"\nprepend-path LD_LIBRARY_PATH $lib\n\
                   prepend-path --delim {:} LD_LIBRARY_PATH {/apps/a/lib}\n\
                   append-path -d : LD_LIBRARY_PATH ${root}/lib64 ;# more\n\
                   setenv LD_LIBRARY_PATH \\\n  /apps/b:/apps/c\nprepend-path PATH $root/bin\n\
                   if { [is-loaded gcc] } {\n  prepend-path LD_LIBRARY_PATH /apps/gcc/lib\n}\n";
        let lua = "local root = \"/apps/x\"\nlocal lib = pathJoin(root, \"lib\")\n\
                   prepend_path(\"LD_LIBRARY_PATH\", lib)\n-- prepend_path('LD_LIBRARY_PATH','/no')\n\
                   prepend_path(\"LD_LIBRARY_PATH\", \"/apps/a/lib\", \":\")\n\
                   append_path('LD_LIBRARY_PATH', root .. '/lib64')\n\
                   setenv(\"LD_LIBRARY_PATH\", \"/apps/b:/apps/c\")\nprepend_path('PATH', root)\n\
                   if isloaded('gcc') then prepend_path{\"LD_LIBRARY_PATH\", \"/apps/gcc/lib\"} end\n";
        let dirs = ["/apps/x/lib", "/apps/a/lib", "/apps/x/lib64", "/apps/b", "/apps/c"];
        for (name, text) in [("x/1", tcl), ("x/1.lua", lua)] {
            let found = of(name, text);
            let expected = dirs.iter().copied().chain(["/apps/gcc/lib"]).map(PathBuf::from);
            assert_eq!(found.dirs, expected.collect::<Vec<_>>(), "{name}");
            assert!(found.not_understood.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn no_line_is_too_long_for_the_stack() {
        let many = |text: &str| text.repeat(200_000);
        let joined = format!("prepend_path('LD_LIBRARY_PATH', '/a'{})", many("..'b'"));
        assert_eq!(of("x/1.lua", &joined).dirs.len(), 1);
        let nested = format!("prepend_path('LD_LIBRARY_PATH', {}", many("pathJoin("));
        assert_eq!(of("x/1.lua", &nested).not_understood.len(), 1);
    }

    #[test]
    fn a_line_that_is_not_understood_is_reported_by_its_number() {
        let tcl = "#%Module\nprepend-path LD_LIBRARY_PATH $env(HOME)/lib\n\
                   prepend-path LD_LIBRARY_PATH [exec root]/lib\n";
        let lua = "local x = os.getenv('X')\nprepend_path('LD_LIBRARY_PATH', x)\n\
                   prepend_path('LD_LIBRARY_PATH', f('a'))\n";
        for (name, text, lines) in [("x/1", tcl, [2, 3]), ("x/1.lua", lua, [2, 3])] {
            let found = of(name, text);
            let expected = lines.map(|line| BString::from(format!("{name}:{line}")));
            assert_eq!((found.dirs.len(), found.not_understood), (0, expected.to_vec()));
        }
        assert!(of("readme", "prepend-path LD_LIBRARY_PATH /a").dirs.is_empty());
    }
}
