//! Unary gRPC calls, over HTTP/2, plain or with TLS.
//!
//! ```text
//!   POST /opentelemetry.proto.collector.logs.v1.LogsService/Export   -->
//!   0 | length (32 bits) | message                                   -->
//!                                <--  0 | length | answer,  trailers: grpc-status, grpc-message
//! ```
//!
//! The protocol: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>. `h2` speaks HTTP/2. A connection is kept; between
//! two calls nothing runs on it, and one that the receiver has closed is made again.

use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request, Uri};
use kiln_program::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::Failure;

/// The port of OTLP over gRPC.
const PORT: u16 = 4317;
/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Maximum bytes of an answer.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Maximum characters that are shown of a receiver's reason.
const MAX_REASON: usize = 256;
/// `RESOURCE_EXHAUSTED` and what else may pass: cancelled, deadline exceeded, aborted, out of range, unavailable, data loss.
const TRANSIENT: [u32; 7] = [8, 1, 4, 10, 11, 14, 15];

/// The variable of OpenTelemetry's exporters that names a PEM file of authorities.
const AUTHORITIES: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
/// Where systems have those that everybody trusts.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A receiver.
pub struct Channel {
    runtime: Runtime,
    uri: Uri,
    timeout: Duration,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    kept: Option<SendRequest<Bytes>>,
}

impl Channel {
    /// The receiver at an address, `grpc://host:4317` or, with TLS, `grpcs://host:4317`, that answers within `timeout`.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] for another address, and for files of certificates that cannot be read.
    pub fn new(url: &str, timeout: Duration) -> Result<Channel, Error> {
        Channel::below(url, timeout, &authorities)
    }

    /// As [`Channel::new`], with what gives the authorities.
    fn below(
        url: &str,
        timeout: Duration,
        authorities: &dyn Fn() -> Result<Vec<u8>, String>,
    ) -> Result<Channel, Error> {
        let invalid = |why: String| Error::InvalidInput(format!("{url}: {why}"));
        let uri: Uri = url.parse().map_err(|error| invalid(format!("{error}")))?;
        let host = uri.host().filter(|_| matches!(uri.path(), "" | "/") && uri.query().is_none());
        let host = host.ok_or_else(|| invalid("a gRPC receiver's address is like grpc://127.0.0.1:4317".to_owned()))?;
        let tls = match uri.scheme_str() {
            Some("grpcs") => {
                let mut config = kiln_tls::client(&authorities().map_err(invalid)?)?;
                config.alpn_protocols = vec![b"h2".to_vec()];
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
                let name = name.map_err(|error| invalid(error.to_string()))?;
                Some((TlsConnector::from(std::sync::Arc::new(config)), name))
            }
            _ => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Error::machine("a connection", &error, ""))?;
        Ok(Channel { runtime, uri, timeout, tls, kept: None })
    }

    /// Calls a method with a message; returns the answer's message.
    ///
    /// # Errors
    /// Returns why there is none.
    pub fn call(&mut self, method: &str, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let kept = self.kept.take();
        let exchange = async {
            let mut sender = match kept {
                // One that is closed is not ready.
                Some(kept) => kept.ready().await.ok(),
                None => None,
            };
            if sender.is_none() {
                sender = Some(self.connected().await.map_err(Failure::Silent)?);
            }
            let mut sender = sender.expect("it is there now");
            let answer = self.exchange(&mut sender, method, message).await?;
            Ok((sender, answer))
        };
        let result = self.runtime.block_on(async { tokio::time::timeout(self.timeout, exchange).await });
        let late = || Err(Failure::Silent(format!("no answer within {:?}", self.timeout)));
        let (sender, answer) = match result.unwrap_or_else(|_| late()) {
            Ok((sender, answer)) => (Some(sender), answer),
            Err(failure) => (None, Err(failure)),
        };
        self.kept = sender;
        answer.map_err(|failure| match failure {
            Failure::Silent(why) => Failure::Silent(format!("{}: {why}", self.uri)),
            Failure::Busy(why) => Failure::Busy(format!("{} answers with {why}", self.uri)),
            Failure::Permanent(why) => Failure::Permanent(format!("{}: {why}", self.uri)),
            partial @ Failure::Partial(..) => partial,
        })
    }

    async fn connected(&self) -> Result<SendRequest<Bytes>, String> {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.uri.port_u16().unwrap_or(PORT))).await;
        let stream = stream.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        match &self.tls {
            None => begin(stream).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(|error| error.to_string())?;
                begin(stream).await
            }
        }
    }

    /// One call on a connection. An outer error is the connection's.
    async fn exchange(
        &self,
        sender: &mut SendRequest<Bytes>,
        method: &str,
        message: &[u8],
    ) -> Result<Result<Vec<u8>, Failure>, Failure> {
        let silent = |error: h2::Error| Failure::Silent(error.to_string());
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(method).build();
        let request = Request::post(uri.map_err(|error| Failure::Permanent(error.to_string()))?)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", concat!("kiln/", env!("CARGO_PKG_VERSION")))
            .body(());
        let request = request.map_err(|error| Failure::Permanent(error.to_string()))?;
        let length = u32::try_from(message.len()).map_err(|_| Failure::Permanent("too long a message".to_owned()))?;
        let bytes = [&[0][..], &length.to_be_bytes(), message].concat();
        let (answer, mut body) = sender.send_request(request, false).map_err(silent)?;
        // h2 keeps what the receiver has no room for.
        body.send_data(bytes.into(), true).map_err(silent)?;
        let (head, mut body) = answer.await.map_err(silent)?.into_parts();
        let is_grpc =
            head.headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if !(head.status.is_success() && is_grpc) {
            return Ok(Err(Failure::Permanent(format!("the answer is not gRPC's, status {}", head.status.as_u16()))));
        }
        let mut bytes = Vec::new();
        while let Some(part) = body.data().await {
            let part = part.map_err(silent)?;
            bytes.extend_from_slice(&part);
            if bytes.len() > MAX_ANSWER_BYTES {
                return Ok(Err(Failure::Permanent("the answer is too long".to_owned())));
            }
            body.flow_control().release_capacity(part.len()).map_err(silent)?;
        }
        let trailers = body.trailers().await.map_err(silent)?;
        // A receiver that has nothing else to say sends both at once.
        Ok(status(trailers.as_ref().unwrap_or(&head.headers)).map(|()| bytes.split_off(PREFIX_BYTES.min(bytes.len()))))
    }
}

/// The certificates that a receiver's has to be below, in PEM.
fn authorities() -> Result<Vec<u8>, String> {
    if let Some(path) = std::env::var_os(AUTHORITIES).filter(|path| !path.is_empty()) {
        return std::fs::read(&path).map_err(|error| format!("{AUTHORITIES}={}: {error}", path.display()));
    }
    let found = SYSTEM_AUTHORITIES.iter().find_map(|path| std::fs::read(path).ok());
    found.ok_or_else(|| format!("this system has no certificates of authorities; {AUTHORITIES} can name some"))
}

/// Begins to speak HTTP/2.
async fn begin<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) -> Result<SendRequest<Bytes>, String> {
    let (sender, connection) = h2::client::handshake(stream).await.map_err(|error| error.to_string())?;
    // Its errors are those of the calls.
    drop(tokio::spawn(connection));
    sender.ready().await.map_err(|error| error.to_string())
}

/// What the receiver says of a call.
fn status(trailers: &HeaderMap) -> Result<(), Failure> {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok());
    let code = text("grpc-status").and_then(|code| code.parse().ok());
    let reason: String = text("grpc-message").unwrap_or("no reason").chars().take(MAX_REASON).collect();
    match code {
        Some(0) => Ok(()),
        Some(code) => {
            let why = format!("gRPC status {code}: {reason}");
            Err(if TRANSIENT.contains(&code) { Failure::Busy(why) } else { Failure::Permanent(why) })
        }
        None => Err(Failure::Permanent("the answer has no gRPC status".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use http::Response;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use super::*;

    /// What a receiver answers a call with: its status, whether with a message before it, and whether it then ends the connection.
    type Answer = (&'static str, bool, bool);

    /// Answers calls on one port, each by the next of these. Returns the port, and what each call was: its path and its bytes.
    fn receiver(answers: Vec<Answer>, tls: Option<TlsAcceptor>) -> (u16, Receiver<(String, Vec<u8>)>) {
        let mut answers = answers.into_iter();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        listener.set_nonblocking(true).expect("it is a socket");
        let (calls, seen) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("it is a socket");
            while !answers.as_slice().is_empty() {
                let (stream, _) = listener.accept().await.expect("a client");
                match &tls {
                    None => answer(stream, &mut answers, &calls).await,
                    // A client that does not trust it, or does not encrypt, is followed by the next one.
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            answer(stream, &mut answers, &calls).await;
                        }
                    }
                }
            }
        };
        std::thread::spawn(move || runtime.block_on(serve));
        (port, seen)
    }

    /// Answers the calls of a connection.
    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
        stream: S,
        answers: &mut std::vec::IntoIter<Answer>,
        calls: &Sender<(String, Vec<u8>)>,
    ) {
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let (status, has_message, ends) = answers.next().expect("an answer");
            let (head, mut body) = request.into_parts();
            let read = async move {
                let mut bytes = Vec::new();
                while let Some(Ok(part)) = body.data().await {
                    bytes.extend_from_slice(&part);
                    body.flow_control().release_capacity(part.len()).expect("it was taken");
                }
                bytes
            };
            // The connection goes on while the body is read.
            let mut read = std::pin::pin!(read);
            let bytes = std::future::poll_fn(|context| {
                let _ = connection.poll_closed(context);
                read.as_mut().poll(context)
            })
            .await;
            calls.send((head.uri.path().to_owned(), bytes)).expect("the test waits");
            let answer = Response::builder().header("content-type", "application/grpc");
            if has_message {
                let mut stream = respond.send_response(answer.body(()).expect("it is one"), false).expect("sent");
                stream.send_data(vec![0, 0, 0, 0, 2, 8, 7].into(), false).expect("sent");
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", status.parse().expect("text"));
                stream.send_trailers(trailers).expect("sent");
            } else {
                let answer = answer.header("grpc-status", status).header("grpc-message", "full");
                respond.send_response(answer.body(()).expect("it is one"), true).expect("sent");
            }
            if ends {
                connection.graceful_shutdown();
            }
        }
    }

    fn failed(result: Result<Vec<u8>, Failure>) -> (&'static str, String) {
        match result.expect_err("it fails") {
            Failure::Silent(why) => ("silent", why),
            Failure::Busy(why) => ("busy", why),
            Failure::Permanent(why) => ("permanent", why),
            Failure::Partial(_, why) => ("partial", why),
        }
    }

    #[test]
    fn calls_are_answered_on_one_connection_until_it_ends() {
        let answers =
            vec![("0", true, false), ("14", true, false), ("8", false, false), ("3", false, true), ("0", true, false)];
        let (port, seen) = receiver(answers, None);
        let url = format!("grpc://127.0.0.1:{port}");
        let mut channel = Channel::new(&url, Duration::from_secs(30)).expect("an address");
        // More than the receiver has room for at once.
        let message = vec![7; 300_000];
        assert!(channel.call("/a.B/C", &message).is_ok_and(|answer| answer == [8, 7]));
        let (path, bytes) = seen.recv().expect("it was called");
        assert_eq!((&*path, &bytes[..5], bytes.len()), ("/a.B/C", &[0, 0, 4, 0x93, 0xe0][..], 300_005));
        for (kind, wanted) in [("busy", "status 14: no reason"), ("busy", "status 8: full"), ("permanent", "status 3")]
        {
            let (failed, why) = failed(channel.call("/a.B/C", &[]));
            assert!(failed == kind && why.contains(wanted) && why.contains(&url), "{failed}: {why}");
        }
        // The receiver has ended the connection. It is seen at the next call, or at the one after.
        let again = channel.call("/a.B/C", &[]).or_else(|_| channel.call("/a.B/C", &[]));
        assert!(again.is_ok_and(|answer| answer == [8, 7]));
        assert_eq!(seen.iter().take(4).count(), 4);
    }

    /// An authority, a certificate below it for `localhost` and its key, and another authority, in PEM.
    fn certificates() -> Option<[Vec<u8>; 4]> {
        let folder = tempfile::tempdir().expect("a folder");
        let openssl = |arguments: String| {
            let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
            let mut command = std::process::Command::new("openssl");
            command.args(new.split(' ')).args(arguments.split(' ')).current_dir(folder.path());
            command.output().is_ok_and(|output| output.status.success())
        };
        let below = "-addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:localhost -CA above -CAkey above.key";
        let made = openssl("-subj /CN=above -keyout above.key -out above".to_owned())
            && openssl(format!("-subj /CN=localhost {below} -keyout key -out cert"))
            && openssl("-subj /CN=other -keyout other.key -out other".to_owned());
        if !made {
            println!("skipped: openssl makes no certificates here");
            return None;
        }
        Some(
            ["above", "cert", "key", "other"].map(|name| std::fs::read(folder.path().join(name)).expect("it was made")),
        )
    }

    fn acceptor(certificate: &[u8], key: &[u8]) -> TlsAcceptor {
        let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>().expect("certificates");
        let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
        let builder = ServerConfig::builder_with_provider(default_provider().into());
        let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let mut config = builder.with_single_cert(chain, key).expect("a server");
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsAcceptor::from(std::sync::Arc::new(config))
    }

    #[test]
    fn calls_are_encrypted_for_a_receiver_below_the_authority() {
        let Some([authority, certificate, key, other]) = certificates() else { return };
        let answers = vec![("0", true, false), ("14", true, false), ("0", true, true)];
        let (port, seen) = receiver(answers, Some(acceptor(&certificate, &key)));
        let to = |url: String, authorities: &[u8]| {
            Channel::below(&url, Duration::from_secs(30), &|| Ok(authorities.to_vec())).expect("an address")
        };
        for (host, authorities, wanted) in
            [("localhost", &other, "UnknownIssuer"), ("127.0.0.1", &authority, "not valid for name")]
        {
            let (kind, why) = failed(to(format!("grpcs://{host}:{port}"), authorities).call("/a.B/C", &[]));
            assert!(kind == "silent" && why.contains(wanted), "{kind}: {why}");
        }
        assert_eq!(failed(to(format!("grpc://localhost:{port}"), &authority).call("/a.B/C", &[])).0, "silent");
        let mut channel = to(format!("grpcs://localhost:{port}"), &authority);
        let message = vec![7; 300_000];
        assert!(channel.call("/a.B/C", &message).is_ok_and(|answer| answer == [8, 7]));
        assert_eq!(failed(channel.call("/a.B/C", &[])).0, "busy");
        assert!(channel.call("/a.B/C", &[]).is_ok_and(|answer| answer == [8, 7]));
        let lengths: Vec<usize> = seen.iter().take(3).map(|(_, bytes)| bytes.len()).collect();
        assert_eq!(lengths, [300_005, 5, 5]);
        let unreadable = Channel::below("grpcs://localhost", Duration::from_secs(1), &|| Ok(b"none".to_vec()));
        assert!(unreadable.is_err_and(|error| error.to_string().contains("no certificate in PEM")));
    }

    #[test]
    fn what_does_not_speak_grpc_is_no_receiver() {
        for (said, wanted) in [(&b""[..], "silent"), (b"HTTP/1.1 200 OK\r\n\r\n", "silent")] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let url = format!("grpc://{}", listener.local_addr().expect("an address"));
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a client");
                std::io::Write::write_all(&mut stream, said).expect("it is sent");
            });
            let mut channel = Channel::new(&url, Duration::from_secs(30)).expect("an address");
            assert_eq!(failed(channel.call("/a.B/C", &[])).0, wanted);
            server.join().expect("it ends");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("grpc://{}", listener.local_addr().expect("an address"));
        let mut channel = Channel::new(&url, Duration::from_millis(200)).expect("an address");
        let (kind, why) = failed(channel.call("/a.B/C", &[]));
        assert!(kind == "silent" && why.contains("no answer within"), "{kind}: {why}");
        for url in ["grpc://", "grpc://127.0.0.1/path", "grpc://127.0.0.1?a", "grpc://[", "grpcs://a b"] {
            assert!(Channel::new(url, Duration::from_secs(1)).is_err(), "{url}");
        }
    }
}
