//! Scripts of definitions that lie in files of their own: an argument `{{script.NAME}}` becomes the text of
//! `scripts/NAME`, beside the definition or among those that come with the program. Several in one argument follow one
//! another.

use std::path::Path;

use super::check::Fault;
use super::definition::Definition;

/// The scripts that come with the program.
const EMBEDDED: [(&str, &str); 12] = [
    ("c_proof.sh", include_str!("../../environments/scripts/c_proof.sh")),
    ("go_proof.sh", include_str!("../../environments/scripts/go_proof.sh")),
    ("java_proof.sh", include_str!("../../environments/scripts/java_proof.sh")),
    ("node_proof.js", include_str!("../../environments/scripts/node_proof.js")),
    ("node_requirements.js", include_str!("../../environments/scripts/node_requirements.js")),
    ("proof.sh", include_str!("../../environments/scripts/proof.sh")),
    ("python_backend.py", include_str!("../../environments/scripts/python_backend.py")),
    ("python_install.py", include_str!("../../environments/scripts/python_install.py")),
    ("python_pip.py", include_str!("../../environments/scripts/python_pip.py")),
    ("python_proof.py", include_str!("../../environments/scripts/python_proof.py")),
    ("python_requirements.py", include_str!("../../environments/scripts/python_requirements.py")),
    ("rust_proof.sh", include_str!("../../environments/scripts/rust_proof.sh")),
];

/// The longest script, in bytes: the kernel takes no argument of 128 KiB.
const MAX_SCRIPT: usize = 128 * 1024 - 1;

/// Puts the scripts' texts into all commands.
pub(super) fn insert_scripts(definition: &mut Definition, folder: Option<&Path>) -> Result<(), Fault> {
    let steps = definition.layers.iter_mut().flat_map(|layer| &mut layer.steps).chain(&mut definition.build.steps);
    let mut commands: Vec<&mut Vec<String>> = steps.map(|step| &mut step.argv).collect();
    commands.push(&mut definition.toolchain.probe);
    commands.extend(definition.requirements.iter_mut().map(|requirements| &mut requirements.argv));
    commands.extend(definition.proofs.iter_mut().map(|proof| &mut proof.argv));
    for argument in commands.into_iter().flatten() {
        let inside = argument.strip_prefix("{{script.").and_then(|rest| rest.strip_suffix("}}"));
        let Some(names) = inside.map(|inside| inside.split("}}{{script.")) else { continue };
        let fault = |message: String| Fault { message, about: Some(argument.clone()) };
        let text = names.map(|name| script(name, folder)).collect::<Result<String, _>>().map_err(fault)?;
        if text.len() > MAX_SCRIPT || text.contains('\0') {
            return Err(fault(format!("a script must be a text of at most {MAX_SCRIPT} bytes")));
        }
        *argument = text;
    }
    Ok(())
}

/// The text of one script, or what is wrong with it.
fn script(name: &str, folder: Option<&Path>) -> Result<String, String> {
    if name.starts_with('.') || name.contains(['/', '\\']) {
        return Err(format!("`{name}` is no name of a script"));
    }
    if let Some(file) = folder.map(|folder| folder.join(name)).filter(|file| file.exists()) {
        return fs_err::read_to_string(&file).map_err(|error| error.to_string());
    }
    let embedded = EMBEDDED.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
    embedded.ok_or_else(|| {
        let place = folder.map_or_else(|| "scripts".to_owned(), |folder| folder.display().to_string());
        format!("there is no script `{name}` in `{place}`")
    })
}
