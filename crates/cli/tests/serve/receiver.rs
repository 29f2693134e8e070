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
        Receiver::answering(move |known| if known == 0 { (200, "{}") } else { (status, answer) })
    }

    /// Answers each document with a status and a text, by the number of documents before. What redirects has the text as its
    /// place.
    pub fn answering(answer: impl Fn(usize) -> (u16, &'static str) + Send + 'static) -> Receiver {
        let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").expect("a server"));
        let url = format!("http://{}", server.server_addr());
        let serving = Arc::clone(&server);
        let thread = std::thread::spawn(move || {
            let mut documents = Vec::new();
            for mut request in serving.incoming_requests() {
                let document = serde_json::from_reader(request.as_reader()).expect("JSON");
                let (status, answer) = answer(documents.len());
                documents.push((request.url().to_owned(), document));
                let mut response = tiny_http::Response::from_string(answer).with_status_code(status);
                if (300..400).contains(&status) {
                    response.add_header(tiny_http::Header::from_bytes("Location", answer).expect("a header"));
                }
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
