//! A case about symbols: the bindings it expects against the prediction, and the prediction
//! against the memory of the real start.

use std::path::Path;

use anyhow::{Result, anyhow};
use bstr::BString;

use super::{Bind, Case};
use crate::binding_differential::recorder;
use crate::binding_differential::trial::{Prediction, Trial};
use crate::differential::candidates::Place;

/// Returns the faults, one line each.
pub(super) fn compare(case: &Case, scratch: &Path, out: &Path) -> Result<Vec<String>> {
    let place = Place::here("case", &[out.to_owned()], true);
    let program = out.join(&case.description.object);
    let object = place.object(&program).map_err(|reason| anyhow!("{reason}"))?;
    let recorder = recorder::build(&object.machine, scratch)?;
    let variables = case.description.env.iter();
    let env: Vec<(String, String)> =
        variables.map(|(name, value)| (name.clone(), case.expand(value, out))).collect();
    let trial = Trial { place: &place, object: &object, recorder: &recorder, env: &env };
    let prediction = trial.predict()?;
    let mut wrong: Vec<String> =
        case.description.binds.iter().filter_map(|bind| unmet(bind, &prediction, out)).collect();
    wrong.extend(undefined(case, &prediction));
    let verdict = trial.verdict(&prediction)?;
    wrong.extend(verdict.differences);
    let is_unexpected = verdict.fails && case.description.undefined.is_empty();
    wrong.extend(is_unexpected.then(|| "the start fails".to_owned()));
    Ok(wrong)
}

/// Returns the reason why an expectation is not met.
fn unmet(bind: &Bind, prediction: &Prediction, out: &Path) -> Option<String> {
    let path = |name: &str| BString::from(out.join(name).to_string_lossy().into_owned());
    let (load, wanted) = (&prediction.closure.load, path(&bind.object));
    let found = load.objects.iter().position(|object| object.path == wanted);
    let object = found.map(|index| &prediction.bindings.objects[index]);
    let Some((object, symbols)) = object.and_then(|o| Some((o, o.symbols.as_ref()?))) else {
        return Some(format!("{} is not loaded", bind.object));
    };
    let named = object.bindings.iter().filter(|binding| {
        symbols.symbol_name(binding.symbol) == bind.symbol.as_bytes()
            && bind.kind.as_ref().is_none_or(|kind| *kind == binding.kind.name())
    });
    let definers: Vec<Option<BString>> = named
        .map(|binding| binding.definer.object().map(|definer| load.objects[definer].path.clone()))
        .collect();
    let expected = bind.definer.as_deref().map(path);
    let met = !definers.is_empty() && definers.iter().all(|definer| *definer == expected);
    (!met).then(|| format!("{}: {} binds to {definers:?}", bind.object, bind.symbol))
}

/// The undefined symbols, if they are not those that the case names.
fn undefined(case: &Case, prediction: &Prediction) -> Option<String> {
    let undefined = prediction.bindings.undefined().filter_map(|(object, binding)| {
        let symbols = prediction.bindings.objects[object].symbols.as_ref()?;
        Some(String::from_utf8_lossy(symbols.symbol_name(binding.symbol)).into_owned())
    });
    let undefined: Vec<String> = undefined.collect();
    let differs = undefined != case.description.undefined;
    differs.then(|| format!("undefined symbols: {undefined:?}"))
}
