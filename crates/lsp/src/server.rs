//! The server: messages of the editor on one side, a thread that compiles and checks on the other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, select, unbounded};
use kiln_driver::kernels::Kernel;
use kiln_driver::{Error, optimize};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument, Exit,
};
use lsp_types::notification::{Notification as _, PublishDiagnostics, ShowMessage};
use lsp_types::request::{
    CodeActionRequest, CodeLensRequest, ExecuteCommand, HoverRequest, InlayHintRequest, Request as _, Shutdown,
};
use lsp_types::{
    CodeAction, CodeActionParams, CodeActionProviderCapability, CodeLensOptions, CodeLensParams, ExecuteCommandOptions,
    ExecuteCommandParams, Hover, HoverContents, HoverParams, HoverProviderCapability, InlayHintParams, MarkupContent,
    MarkupKind, MessageType, OneOf, PublishDiagnosticsParams, SaveOptions, ServerCapabilities, ShowMessageParams,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions, Uri,
};
use serde_json::{Value, json};

use crate::look::{self, CHECK, Known, Look, OPTIMIZE};
use crate::place::{path_of, text_of, uri_of};
use crate::wire;

/// The time for saying what optimizing a program would bring.
const OPTIMIZING: Duration = Duration::from_secs(2);

/// Speaks on standard input and output until the editor says goodbye. Returns the exit code that the protocol asks for: 1
/// if `exit` came without `shutdown`.
///
/// # Errors
/// [`Error::InvalidInput`] if the other side does not speak the protocol.
pub fn run() -> Result<u8, Error> {
    let (connection, threads) = wire::stdio();
    let served = serve(connection);
    let wrong = |error: std::io::Error| Error::InvalidInput(format!("the editor's messages: {error}"));
    threads.join().map_err(wrong).and(served)
}

/// Speaks over a connection until the editor says goodbye.
///
/// # Errors
/// As [`run`].
pub fn serve(connection: Connection) -> Result<u8, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::InvalidInput(format!("the editor's messages: {error}"));
    let capabilities = serde_json::to_value(capabilities()).map_err(|error| wrong(&error))?;
    let first = "none came; an editor starts kiln lsp and speaks first (docs/guide/editor.md)";
    let (id, _) = connection.initialize_start().map_err(|_| wrong(&first))?;
    let server = json!({ "name": "kiln", "version": env!("CARGO_PKG_VERSION") });
    let answer = json!({ "capabilities": capabilities, "serverInfo": server });
    connection.initialize_finish(id, answer).map_err(|error| wrong(&error))?;
    let (jobs, queue) = unbounded();
    let (results, done) = unbounded();
    std::thread::scope(|scope| {
        scope.spawn(|| work(&queue, &results));
        // The thread ends when `jobs` goes.
        let mut server = Server { connection: &connection, jobs, looks: HashMap::new(), changed: HashMap::new() };
        server.listen(&done).map_err(|error| wrong(&error))
    })
}

fn capabilities() -> ServerCapabilities {
    let save = TextDocumentSyncSaveOptions::SaveOptions(SaveOptions { include_text: Some(false) });
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        // The shortest messages: only whether a text was changed matters.
        change: Some(TextDocumentSyncKind::INCREMENTAL),
        save: Some(save),
        ..Default::default()
    };
    ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        inlay_hint_provider: Some(OneOf::Left(true)),
        code_lens_provider: Some(CodeLensOptions { resolve_provider: None }),
        code_action_provider: Some(CodeActionProviderCapability::Simple(true)),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: vec![CHECK.to_owned(), OPTIMIZE.to_owned()],
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// What the thread is to do.
#[derive(Clone, PartialEq, Eq)]
enum Job {
    /// Compile and check a source.
    Look(PathBuf),
    /// Check it for all kernels.
    Check(PathBuf),
    /// Say what optimizing a program would bring.
    Optimize(PathBuf, String),
}

/// What came of it.
enum Done {
    Look(PathBuf, Box<Look>),
    /// Edits for the rejections of the last look at a source.
    Fixes(PathBuf, Vec<CodeAction>),
    Say(MessageType, String),
}

/// Does jobs one after the other; one that is asked for again while it waits is done once. Fixes are sought when a look
/// was shown, unless the source is to be looked at again already.
fn work(queue: &Receiver<Job>, results: &Sender<Done>) {
    let mut waiting: Vec<Job> = Vec::new();
    let mut known = Known::default();
    loop {
        match waiting.is_empty() {
            true => match queue.recv() {
                Ok(job) => waiting.push(job),
                Err(_) => return,
            },
            false => {
                waiting.extend(queue.try_iter());
                waiting = once_each(waiting);
                let mut done = finished(waiting.remove(0));
                let unfixed = match &mut done {
                    Done::Look(path, look) => look.unfixed.take().map(|unfixed| (path.clone(), unfixed)),
                    _ => None,
                };
                if results.send(done).is_err() {
                    return;
                }
                waiting.extend(queue.try_iter());
                waiting = once_each(waiting);
                if let Some((path, unfixed)) = unfixed
                    && !waiting.contains(&Job::Look(path.clone()))
                    && results.send(Done::Fixes(path, unfixed.actions(&mut known))).is_err()
                {
                    return;
                }
            }
        }
    }
}

/// Jobs without those that were asked for before.
fn once_each(jobs: Vec<Job>) -> Vec<Job> {
    jobs.into_iter().fold(Vec::new(), |mut kept, job| {
        if !kept.contains(&job) {
            kept.push(job);
        }
        kept
    })
}

fn finished(job: Job) -> Done {
    let done = match &job {
        Job::Look(path) => look::look(path, None).map(|look| Done::Look(path.clone(), Box::new(look))),
        Job::Check(path) => loads_on(path),
        Job::Optimize(path, program) => optimized(path, program),
    };
    done.unwrap_or_else(|error| Done::Say(MessageType::ERROR, error.to_string()))
}

fn loads_on(path: &Path) -> Result<Done, Error> {
    let look = look::look(path, Some(&[Kernel::All]))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(match look.loads_on {
        Some(text) => Done::Say(MessageType::INFO, format!("{name}: {text}")),
        None => Done::Say(MessageType::WARNING, format!("{name} does not compile")),
    })
}

fn optimized(path: &Path, program: &str) -> Result<Done, Error> {
    let Some(input) = look::look(path, None)?.input else {
        return Ok(Done::Say(MessageType::WARNING, "the source does not compile".to_owned()));
    };
    let mut options = optimize::Options::default();
    options.budget = OPTIMIZING;
    options.ask_kernel = false;
    options.programs = vec![program.to_owned()];
    let outcome = optimize::optimize(&input, &options, &mut ())?;
    let said = outcome.programs.iter().find(|own| own.program == *program).map(|own| {
        let (before, after) = (own.slots_before, own.slots_after);
        let less = 100.0 * f64::from(before.saturating_sub(after)) / f64::from(before.max(1));
        format!("{program}: {before} slots would be {after} ({less:.1} % less) after kiln optimize")
    });
    Ok(Done::Say(MessageType::INFO, said.unwrap_or_else(|| format!("no program {program} is left"))))
}

struct Server<'a> {
    connection: &'a Connection,
    jobs: Sender<Job>,
    looks: HashMap<PathBuf, Look>,
    /// Documents whose text is not the one that was looked at, and whether the new one is saved.
    changed: HashMap<PathBuf, bool>,
}

type Sent<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

impl Server<'_> {
    fn listen(&mut self, done: &Receiver<Done>) -> Sent<u8> {
        let mut is_shut = false;
        loop {
            select! {
                recv(self.connection.receiver) -> message => match message {
                    Ok(Message::Request(request)) if is_shut => {
                        let refused = "the server is shut down".to_owned();
                        self.send(Response::new_err(request.id, ErrorCode::InvalidRequest as i32, refused))?;
                    }
                    Ok(Message::Request(request)) if request.method == Shutdown::METHOD => {
                        is_shut = true;
                        self.send(Response::new_ok(request.id, ()))?;
                    }
                    Ok(Message::Request(request)) => self.answer(request)?,
                    Ok(Message::Notification(told)) if told.method == Exit::METHOD => return Ok(u8::from(!is_shut)),
                    Ok(Message::Notification(told)) => self.told(told)?,
                    Ok(Message::Response(_)) => {}
                    // The editor is gone without a goodbye.
                    Err(_) => return Ok(0),
                },
                recv(done) -> done => match done? {
                    Done::Look(path, look) => self.show(path, *look)?,
                    Done::Fixes(path, actions) => {
                        if let Some(look) = self.looks.get_mut(&path) {
                            look.actions.extend(actions);
                        }
                    }
                    Done::Say(typ, message) => {
                        self.tell::<ShowMessage>(ShowMessageParams { typ, message })?;
                    }
                },
            }
        }
    }

    fn tell<N: lsp_types::notification::Notification>(&self, parameters: N::Params) -> Sent {
        let told = Notification::new(N::METHOD.to_owned(), parameters);
        Ok(self.connection.sender.send(Message::Notification(told))?)
    }

    /// A document was opened, changed, saved or closed.
    fn told(&mut self, told: Notification) -> Sent {
        let Some(path) = document(&told.params).and_then(|uri| path_of(&uri)) else { return Ok(()) };
        match told.method.as_str() {
            DidChangeTextDocument::METHOD => {
                self.changed.insert(path, false);
            }
            DidOpenTextDocument::METHOD => {
                let text = told.params["textDocument"]["text"].as_str().unwrap_or_default();
                if kiln_driver::source::is_source(&path) && look::has_programs(text) {
                    self.jobs.send(Job::Look(path))?;
                }
            }
            DidSaveTextDocument::METHOD => {
                let stale = self.looks.iter().filter(|(own, look)| **own == path || look.read.contains(&path));
                let mut again: Vec<PathBuf> = stale.map(|(own, _)| own.clone()).collect();
                self.changed.entry(path.clone()).and_modify(|is_saved| *is_saved = true);
                if again.is_empty() && is_program_source(&path) {
                    again.push(path);
                }
                again.into_iter().try_for_each(|path| self.jobs.send(Job::Look(path)))?;
            }
            DidCloseTextDocument::METHOD => {
                self.changed.remove(&path);
                if let Some(look) = self.looks.remove(&path) {
                    look.diagnostics.into_keys().try_for_each(|file| self.publish(&file, Vec::new()))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn publish(&self, file: &Path, diagnostics: Vec<lsp_types::Diagnostic>) -> Sent {
        match uri_of(file) {
            Some(uri) => self.tell::<PublishDiagnostics>(PublishDiagnosticsParams { uri, diagnostics, version: None }),
            None => Ok(()),
        }
    }

    /// Shows what was found, and takes back what was said of files of which nothing is said any more.
    fn show(&mut self, path: PathBuf, look: Look) -> Sent {
        for (file, diagnostics) in &look.diagnostics {
            self.publish(file, diagnostics.clone())?;
        }
        self.changed.retain(|own, is_saved| !*is_saved || *own != path && !look.read.contains(own));
        let before = self.looks.insert(path, look);
        let silent = before.into_iter().flat_map(|look| look.diagnostics.into_keys());
        let said = |file: &PathBuf| self.looks.values().any(|look| look.diagnostics.contains_key(file));
        let silent: Vec<PathBuf> = silent.filter(|file| !said(file)).collect();
        silent.iter().try_for_each(|file| self.publish(file, Vec::new()))
    }

    fn answer(&self, request: Request) -> Sent {
        let Request { id, method, params } = request;
        let response = match self.result(&method, params) {
            Ok(Some(value)) => Response::new_ok(id, value),
            Ok(None) => Response::new_err(id, ErrorCode::MethodNotFound as i32, format!("kiln has no {method}")),
            Err(error) => Response::new_err(id, ErrorCode::InvalidParams as i32, error.to_string()),
        };
        self.send(response)
    }

    fn send(&self, response: Response) -> Sent {
        Ok(self.connection.sender.send(Message::Response(response))?)
    }

    /// The result of a request; `None` for a method that is not known.
    fn result(&self, method: &str, parameters: Value) -> serde_json::Result<Option<Value>> {
        let look = |uri: &Uri| path_of(uri).and_then(|path| self.looks.get(&path));
        let result = match method {
            HoverRequest::METHOD => {
                let asked: HoverParams = serde_json::from_value(parameters)?;
                let at = asked.text_document_position_params;
                let text =
                    look(&at.text_document.uri).and_then(|look| look.hovers.get(&at.position.line.checked_add(1)?));
                let markdown = |text: &String| MarkupContent { kind: MarkupKind::Markdown, value: text.clone() };
                json!(text.map(|text| Hover { contents: HoverContents::Markup(markdown(text)), range: None }))
            }
            InlayHintRequest::METHOD => {
                let asked: InlayHintParams = serde_json::from_value(parameters)?;
                let hints = look(&asked.text_document.uri).map_or(&[][..], |look| &look.hints);
                let lines = asked.range.start.line..=asked.range.end.line;
                json!(hints.iter().filter(|hint| lines.contains(&hint.position.line)).collect::<Vec<_>>())
            }
            CodeLensRequest::METHOD => {
                let asked: CodeLensParams = serde_json::from_value(parameters)?;
                json!(look(&asked.text_document.uri).map_or(&[][..], |look| &look.lenses))
            }
            CodeActionRequest::METHOD => {
                let asked: CodeActionParams = serde_json::from_value(parameters)?;
                let actions = look(&asked.text_document.uri).map_or(&[][..], |look| &look.actions);
                let lines = asked.range.start.line..=asked.range.end.line;
                let here = |diagnostic: &lsp_types::Diagnostic| lines.contains(&diagnostic.range.start.line);
                let is_changed = |uri: &Uri| path_of(uri).is_some_and(|path| self.changed.contains_key(&path));
                let is_stale = |action: &CodeAction| {
                    let edit = action.edit.as_ref().and_then(|edit| edit.changes.as_ref());
                    edit.is_some_and(|changes| changes.keys().any(is_changed))
                };
                let wanted = actions.iter().filter(|action| action.diagnostics.iter().flatten().any(here));
                let wanted = wanted.filter(|action| !is_stale(action));
                json!(wanted.collect::<Vec<_>>())
            }
            ExecuteCommand::METHOD => {
                self.execute(&serde_json::from_value(parameters)?);
                Value::Null
            }
            _ => return Ok(None),
        };
        Ok(Some(result))
    }

    /// Begins a command; its answer comes as a message.
    fn execute(&self, asked: &ExecuteCommandParams) {
        let text = |at: usize| asked.arguments.get(at).and_then(Value::as_str);
        let path = text(0).and_then(|uri| path_of(&uri.parse().ok()?));
        let job = match (asked.command.as_str(), path, text(1)) {
            (CHECK, Some(path), _) => Job::Check(path),
            (OPTIMIZE, Some(path), Some(program)) => Job::Optimize(path, program.to_owned()),
            _ => return,
        };
        // It fails only if the thread is gone, and then the loop ends too.
        self.jobs.send(job).ok();
    }
}

/// The document that a notification is about.
fn document(parameters: &Value) -> Option<Uri> {
    parameters["textDocument"]["uri"].as_str()?.parse().ok()
}

fn is_program_source(path: &Path) -> bool {
    kiln_driver::source::is_source(path) && text_of(path).is_ok_and(|text| look::has_programs(&text))
}
