//! Settings from the environment: `FAIRWAY_DEVICES`, `FAIRWAY_PROVIDER` and others.

use std::fmt::Display;
use std::str::FromStr;

use fairway::DatapathKind;
use fairway_rdma::devices::{Device, Filter};
use fairway_rdma::{PolicySpec, ProviderKind, ProviderOptions};

#[cfg(test)]
mod tests;

/// An environment variable has an illegal value. The text gives the legal ones, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SettingError(pub(crate) String);

type Result<T> = std::result::Result<T, SettingError>;

/// Function that returns the value of an environment variable.
pub(crate) type Source<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the environment of this process.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Value of a variable, if it is set and not empty.
fn value(source: Source<'_>, name: &str) -> Option<String> {
    source(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn wrong(name: &str, value: &str, remedy: impl Display) -> SettingError {
    SettingError(format!("{name}={value}: {remedy}"))
}

fn parsed<T: FromStr<Err: Display>>(source: Source<'_>, name: &str) -> Result<Option<T>> {
    let Some(text) = value(source, name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error| wrong(name, &text, error))
}

fn switch(source: Source<'_>, name: &str, default: bool) -> Result<bool> {
    match value(source, name).as_deref() {
        None => Ok(default),
        Some("1" | "on" | "yes" | "true") => Ok(true),
        Some("0" | "off" | "no" | "false") => Ok(false),
        Some(other) => Err(wrong(name, other, "set it to 1 or 0")),
    }
}

/// Filter that selects the interfaces that become devices.
pub(crate) fn filter(source: Source<'_>) -> Result<Filter> {
    Ok(parsed(source, "FAIRWAY_DEVICES")?.unwrap_or_default())
}

/// The policy, checked as far as the provider is concerned: RoCE takes a scheduler alone.
fn policy(source: Source<'_>, kind: ProviderKind) -> Result<Option<String>> {
    const NAME: &str = "FAIRWAY_POLICY";
    let Some(text) = value(source, NAME) else { return Ok(None) };
    let takes = |policy: PolicySpec| kind.takes(&policy);
    if kind == ProviderKind::Roce && !text.parse().is_ok_and(takes) {
        return Err(wrong(
            NAME,
            &text,
            "RoCE takes a scheduler alone, as sched=drr; add FAIRWAY_PROVIDER=fairway for other \
             policies",
        ));
    }
    Ok(Some(text))
}

/// The datapath of Fairway's provider. The datapath over an RDMA NIC uses a verbs library, which
/// may be this one, so here the default takes its place.
fn datapath(source: Source<'_>) -> Result<Option<DatapathKind>> {
    let chosen: Option<DatapathKind> = parsed(source, "FAIRWAY_DATAPATH")?;
    Ok(chosen.map(|chosen| if chosen.is_over_rnic() { DatapathKind::Auto } else { chosen }))
}

/// Kind of the provider.
pub(crate) fn kind(source: Source<'_>) -> Result<ProviderKind> {
    // Earlier versions used the second name.
    let named = ["FAIRWAY_PROVIDER", "FAIRWAY_CARRIER"]
        .into_iter()
        .find_map(|name| value(source, name).map(|value| (name, value)));
    match named.as_ref().map(|(name, value)| (*name, value.as_str())) {
        None | Some((_, "roce")) => Ok(ProviderKind::Roce),
        Some((_, "fairway")) => Ok(ProviderKind::Fairway),
        Some((name, other)) => Err(wrong(name, other, "set it to roce or fairway")),
    }
}

/// Kind and options of the provider of a device.
pub(crate) fn provider(
    source: Source<'_>,
    device: &Device,
) -> Result<(ProviderKind, ProviderOptions)> {
    let kind = kind(source)?;
    let mut options = ProviderOptions::new(device.addresses.clone(), device.mtu());
    options.interface = Some(device.index).filter(|index| *index != 0);
    options.segmentation = switch(source, "FAIRWAY_SEGMENTATION", options.segmentation)?;
    options.out_of_order = switch(source, "FAIRWAY_OUT_OF_ORDER", options.out_of_order)?;
    options.dcqcn = switch(source, "FAIRWAY_DCQCN", options.dcqcn)?;
    let seed = parsed(source, "FAIRWAY_EMULATE_SEED")?.unwrap_or(1);
    options.emulate = parsed(source, "FAIRWAY_EMULATE")?.map(|spec| (spec, seed));
    options.policy = policy(source, kind)?;
    options.service_levels = parsed(source, "FAIRWAY_WEIGHTS")?.unwrap_or_default();
    options.datapath = datapath(source)?;
    options.dscp = parsed(source, "FAIRWAY_DSCP")?;
    options.paths = parsed(source, "FAIRWAY_PATHS")?;
    if let Some(paths) = options.paths.filter(|paths| !(1..=256).contains(paths)) {
        return Err(wrong("FAIRWAY_PATHS", &paths.to_string(), "set it to 1 to 256"));
    }
    Ok((kind, options))
}
