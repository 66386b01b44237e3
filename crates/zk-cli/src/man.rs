//! `zk man`: manual pages, made from the help.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::{Args, Man};
use crate::output::data_json;
use crate::prelude::{Failure, Output, Result, json};

pub(crate) fn run(man: &Man, output: Output) -> Result<u8> {
    let zk = command();
    if let Some(dir) = &man.dir {
        for command in std::iter::once(&zk).chain(zk.get_subcommands()) {
            write(&page(command)?, dir, name(command))?;
        }
        return Ok(0);
    }
    let wanted = match &man.command {
        None => &zk,
        Some(name) => {
            let found = zk.find_subcommand(name);
            found.ok_or_else(|| Failure::usage(format!("no command is `{name}`; see --help")))?
        }
    };
    let page = page(wanted)?;
    output.print_data(&page, || json!({ "page": data_json(&page) }))?;
    Ok(0)
}

/// Returns the definition of `zk`. Each command has the name of its page.
fn command() -> Command {
    let mut zk = Args::command().disable_help_subcommand(true);
    zk.build();
    zk
}

fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    let rendered = render(command, &mut page);
    rendered.map_err(|error| Failure::other(format!("manual page: {error}")))?;
    Ok(page)
}

/// Writes a page. The synopsis, and the examples after the options, keep their lines: filled, they
/// would be commands that nobody can copy.
fn render(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let sections = clap_mangen::Man::new(command.clone());
    sections.render_title(page)?;
    sections.render_name_section(page)?;
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    write!(page, ".SH SYNOPSIS\n.nf\n{}.fi\n", usage.lines().map(line).collect::<String>())?;
    sections.render_description_section(page)?;
    sections.render_options_section(page)?;
    if command.has_subcommands() {
        sections.render_subcommands_section(page)?;
    }
    match command.get_after_help() {
        Some(text) => details(&text.to_string(), page),
        None => Ok(()),
    }
}

/// Writes the text after the options: its paragraphs filled, and its indented lines as they are.
fn details(text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    writeln!(page, ".SH DETAILS")?;
    let mut keeps_lines = false;
    for text in text.lines() {
        let indented = text.strip_prefix("  ");
        if indented.is_some() != keeps_lines {
            writeln!(page, "{}", if keeps_lines { ".fi" } else { ".nf" })?;
            keeps_lines = indented.is_some();
        }
        match text {
            "" => writeln!(page, ".PP")?,
            text => page.write_all(line(indented.unwrap_or(text)).as_bytes())?,
        }
    }
    if keeps_lines {
        writeln!(page, ".fi")?;
    }
    Ok(())
}

/// Returns a line of text. It must not begin with a dot or a quote, which would be a request.
fn line(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    format!("\\&{text}\n")
}

fn write(page: &[u8], dir: &Path, name: &str) -> Result<()> {
    let file = dir.join(format!("{name}.1"));
    let written = fs::write(&file, page);
    written.map_err(|error| Failure::other(format!("cannot write {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_filled_and_examples_are_not() {
        let mut page = Vec::new();
        details("It runs.\n\nExamples:\n  zk a\n  zk 'b'\n\nMore.\n  zk --c", &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let lines = [
            ".SH DETAILS",
            "\\&It runs.",
            ".PP",
            "\\&Examples:",
            ".nf",
            "\\&zk a",
            "\\&zk \\(aqb\\(aq",
            ".fi",
            ".PP",
            "\\&More.",
            ".nf",
            "\\&zk \\-\\-c",
            ".fi",
        ];
        assert_eq!(page.lines().collect::<Vec<_>>(), lines);
    }
}
