//! `zk man`: manual pages, made from the help.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use serde_json::json;

use crate::args::{Args, Man};
use crate::failure::Failure;
use crate::output::{Output, data_json};

pub(crate) fn run(man: &Man, output: Output) -> Result<(), Failure> {
    let zk = command();
    if let Some(dir) = &man.dir {
        return std::iter::once(&zk)
            .chain(zk.get_subcommands())
            .try_for_each(|command| write(&page(command)?, dir, name(command)));
    }
    let wanted = match &man.command {
        None => &zk,
        Some(name) => {
            let found = zk.find_subcommand(name);
            found.ok_or_else(|| Failure::usage(format!("no command is `{name}`; see --help")))?
        }
    };
    let page = page(wanted)?;
    output.print_data(&page, || json!({ "page": data_json(&page) }))
}

/// Returns the definition of `zk`. Each command has the name of its page.
fn command() -> Command {
    let mut zk = Args::command().disable_help_subcommand(true);
    zk.build();
    zk
}

/// Returns the name of a command's page, for example `zk-lock`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let rendered = render(command, &mut page);
    rendered.map_err(|error| Failure::other(format!("manual page: {error}")))?;
    Ok(page)
}

/// Writes a page. The synopsis and the text after the options keep their lines: filled, they would
/// be commands that nobody can copy.
fn render(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let sections = clap_mangen::Man::new(command.clone());
    sections.render_title(page)?;
    sections.render_name_section(page)?;
    let usage = command.clone().render_usage().to_string();
    verbatim("SYNOPSIS", usage.trim_start_matches("Usage:").trim(), page)?;
    sections.render_description_section(page)?;
    sections.render_options_section(page)?;
    if command.has_subcommands() {
        sections.render_subcommands_section(page)?;
    }
    match command.get_after_help() {
        Some(text) => verbatim("DETAILS", &text.to_string(), page),
        None => Ok(()),
    }
}

/// Writes a section whose lines stay as they are.
fn verbatim(title: &str, text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    writeln!(page, ".SH {title}\n.nf")?;
    for line in text.lines() {
        // A line must not begin with a dot or a quote, which would be a request.
        let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
        writeln!(page, "\\&{line}")?;
    }
    writeln!(page, ".fi")
}

fn write(page: &[u8], dir: &Path, name: &str) -> Result<(), Failure> {
    let file = dir.join(format!("{name}.1"));
    let written = fs::write(&file, page);
    written.map_err(|error| Failure::other(format!("cannot write {}: {error}", file.display())))
}
