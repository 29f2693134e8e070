//! An OTLP receiver that keeps what it is sent.

use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::Value as Json;

/// It answers until it is ended.
pub struct Receiver {
    /// Where it listens.
    pub url: String,
    server: Arc<tiny_http::Server>,
    thread: JoinHandle<Vec<(String, Json)>>,
}

impl Receiver {
    /// Answers everything with `status` and `answer`, but the first document with success: that is empty, and asks
    /// whether there is a receiver.
    pub fn begin(status: u16, answer: &'static str) -> Receiver {
        let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").expect("a server"));
        let url = format!("http://{}", server.server_addr());
        let serving = Arc::clone(&server);
        let thread = std::thread::spawn(move || {
            let mut documents = Vec::new();
            for mut request in serving.incoming_requests() {
                let document = serde_json::from_reader(request.as_reader()).expect("JSON");
                let (status, answer) = if documents.is_empty() { (200, "{}") } else { (status, answer) };
                documents.push((request.url().to_owned(), document));
                let response = tiny_http::Response::from_string(answer).with_status_code(status);
                request.respond(response).expect("it is answered");
            }
            documents
        });
        Receiver { url, server, thread }
    }

    /// Ends it. Returns what it was sent: paths and documents.
    pub fn end(self) -> Vec<(String, Json)> {
        self.server.unblock();
        self.thread.join().expect("it ends")
    }
}
