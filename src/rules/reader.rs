//! Reads texts into a rule set: all cores parse, and the commands are applied in their order.
//!
//! Most of the time is spent in parsing. A text may arrive in pieces, which are parsed meanwhile.

use std::collections::BTreeMap;
use std::mem;
use std::num::NonZero;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::chain::Chains;
use super::chain::{RestoreCommand, appended, parse_command};
use super::error::{LineError, ParseError};
use super::grammar::Rule;
use super::table::TracedTable;

/// Bytes of a text that a thread parses at a time; a text with fewer is not worth a thread.
const PIECE: usize = 64 * 1024;

/// Maximum threads that parse: the commands are applied by one at a time.
const MAX_THREADS: usize = 4;

/// Tables that a text is read into, with the state after the lines that were read.
#[derive(Debug)]
pub(super) struct RulesReader<'r> {
    tables: &'r mut BTreeMap<TracedTable, Chains>,
    unknown: &'r mut BTreeMap<Box<str>, usize>,
    table: OpenTable,
    lines: usize,
}

/// Table whose `COMMIT` was not read yet.
#[derive(Debug, Default)]
enum OpenTable {
    #[default]
    None,
    Known(TracedTable),
    /// Not modeled: its rules are counted.
    Unknown(Box<str>),
}

/// Line that is neither blank nor a comment.
enum ParsedLine<'t> {
    Table(&'t str),
    Commit,
    /// Consecutive `-A` of one chain. The chain is looked up once for all of them.
    Rules(&'t str, Vec<Rule>),
    Command(&'t str, Result<RestoreCommand<'t>, LineError>),
}

/// Lines of a piece, with their numbers within it.
struct ParsedPiece<'t> {
    lines: Vec<(usize, ParsedLine<'t>)>,
    /// Number of lines, with blank ones and comments.
    count: usize,
}

impl<'t> ParsedPiece<'t> {
    fn parse(piece: &'t str) -> Self {
        let mut lines: Vec<(usize, ParsedLine<'t>)> = Vec::new();
        let mut count = 0;
        for text in piece.lines() {
            count += 1;
            let text = text.trim();
            let line = match text.strip_prefix('*') {
                _ if text.is_empty() || text.starts_with('#') => continue,
                Some(table) => ParsedLine::Table(table.trim()),
                None if text == "COMMIT" => ParsedLine::Commit,
                None => match (parse_command(text), lines.last_mut()) {
                    (
                        Ok(RestoreCommand::Append(chain, spec)),
                        Some((_, ParsedLine::Rules(last, rules))),
                    ) if chain == *last => {
                        rules.push(appended(spec));
                        continue;
                    }
                    (Ok(RestoreCommand::Append(chain, spec)), _) => {
                        // As many as an endpoint chain has; most chains are of endpoints.
                        let mut rules = Vec::with_capacity(2);
                        rules.push(appended(spec));
                        ParsedLine::Rules(chain, rules)
                    }
                    (command, _) => ParsedLine::Command(text, command),
                },
            };
            lines.push((count, line));
        }
        Self { lines, count }
    }
}

impl<'r> RulesReader<'r> {
    /// Returns a reader into modeled tables and the number of rules of each unknown one.
    pub(super) fn new(
        tables: &'r mut BTreeMap<TracedTable, Chains>,
        unknown: &'r mut BTreeMap<Box<str>, usize>,
    ) -> Self {
        Self {
            tables,
            unknown,
            table: OpenTable::None,
            lines: 0,
        }
    }

    pub(super) fn read(mut self, text: &str) -> Result<(), ParseError> {
        if text.len() > PIECE {
            return self.read_pieces(TextPieces(text));
        }
        self.add(ParsedPiece::parse(text))?;
        self.finish()
    }

    /// Reads a text in pieces of whole lines, until they end or a line is rejected.
    pub(super) fn read_pieces<P: AsRef<str>>(
        self,
        pieces: impl Iterator<Item = P> + Send,
    ) -> Result<(), ParseError> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let source = PieceSource::new(pieces, self);
        thread::scope(|scope| {
            for _ in 0..cores.min(MAX_THREADS) {
                scope.spawn(|| source.read());
            }
        });
        // Without a result a thread has panicked, and this one before it came here.
        source.into_result().map_or(Ok(()), |read| read?.finish())
    }

    /// Applies the lines of the next piece.
    fn add(&mut self, piece: ParsedPiece<'_>) -> Result<(), ParseError> {
        for (number, line) in piece.lines {
            let applied = match (line, &mut self.table) {
                (ParsedLine::Rules(chain, rules), OpenTable::Known(table)) => {
                    chains_of(self.tables, *table).append(chain, rules)
                }
                (ParsedLine::Command(_, command), OpenTable::Known(table)) => {
                    command.and_then(|command| chains_of(self.tables, *table).apply(command))
                }
                (ParsedLine::Rules(_, rules), OpenTable::Unknown(name)) => {
                    *self.unknown.entry(name.clone()).or_default() += rules.len();
                    Ok(())
                }
                (ParsedLine::Command(text, _), OpenTable::Unknown(name)) => {
                    let rules = self.unknown.entry(name.clone()).or_default();
                    *rules += usize::from(!text.starts_with(':'));
                    Ok(())
                }
                (ParsedLine::Table(name), OpenTable::None) => {
                    self.table = if let Some(table) = TracedTable::from_name(name) {
                        OpenTable::Known(table)
                    } else {
                        self.unknown.entry(name.into()).or_default();
                        OpenTable::Unknown(name.into())
                    };
                    Ok(())
                }
                (
                    ParsedLine::Commit | ParsedLine::Rules(..) | ParsedLine::Command(..),
                    OpenTable::None,
                ) => Err(LineError::OutsideTable),
                (ParsedLine::Table(_), _) => Err(LineError::MissingCommit),
                (ParsedLine::Commit, _) => {
                    self.table = OpenTable::None;
                    Ok(())
                }
            };
            applied.map_err(|reason| self.rejected(number, reason))?;
        }
        self.lines += piece.count;
        Ok(())
    }

    /// Checks that no table is open at the end of the text.
    fn finish(self) -> Result<(), ParseError> {
        match self.table {
            OpenTable::None => Ok(()),
            _ => Err(self.rejected(1, LineError::MissingCommit)),
        }
    }

    /// Returns the error of a line after the pieces that were read.
    const fn rejected(&self, number: usize, reason: LineError) -> ParseError {
        let line = self.lines + number;
        ParseError { line, reason }
    }
}

fn chains_of(tables: &mut BTreeMap<TracedTable, Chains>, table: TracedTable) -> &mut Chains {
    tables.entry(table).or_insert_with(|| Chains::new(table))
}

/// Result of reading all pieces up to one.
type ReadSoFar<'r> = Result<RulesReader<'r>, ParseError>;

/// Pieces of a text, which threads take in turn. Each one gets the reader from the thread of the
/// piece before, when that has been applied.
struct PieceSource<'r, I>(Mutex<(I, Receiver<ReadSoFar<'r>>)>);

impl<'r, I: Iterator<Item: AsRef<str>>> PieceSource<'r, I> {
    fn new(pieces: I, reader: RulesReader<'r>) -> Self {
        let (sender, receiver) = mpsc::channel();
        // The receiver is there.
        let _ = sender.send(Ok(reader));
        Self(Mutex::new((pieces, receiver)))
    }

    /// Parses and applies pieces until there are no more.
    fn read(&self) {
        while let Some((piece, before, after)) = self.take() {
            let parsed = ParsedPiece::parse(piece.as_ref());
            // Only a panic of its thread takes the reader away.
            let Ok(read) = before.recv() else {
                return;
            };
            let read = read.and_then(|mut reader| reader.add(parsed).map(|()| reader));
            let is_rejected = read.is_err();
            // The source has the receiver, or the thread of the next piece.
            let _ = after.send(read);
            if is_rejected {
                return;
            }
        }
    }

    fn take(&self) -> Option<(I::Item, Receiver<ReadSoFar<'r>>, Sender<ReadSoFar<'r>>)> {
        // After a panic in the iterator there are no more pieces of use.
        let mut source = self.0.lock().ok()?;
        let piece = source.0.next()?;
        let (after, next) = mpsc::channel();
        Some((piece, mem::replace(&mut source.1, next), after))
    }

    fn into_result(self) -> Option<ReadSoFar<'r>> {
        let source = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        source.1.recv().ok()
    }
}

/// Pieces of a text, of whole lines.
struct TextPieces<'t>(&'t str);

impl<'t> Iterator for TextPieces<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = self.0.as_bytes();
        let rest = bytes.get(PIECE..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == b'\n');
        let end = end.map_or(self.0.len(), |at| PIECE + at + 1);
        // A line end is the end of a character.
        let (piece, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        Some(piece)
    }
}
