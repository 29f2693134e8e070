//! What hosts send to: a Collector, and VictoriaMetrics behind it.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

/// A process that listens at a port; ended with this.
struct Listener {
    child: Child,
    port: u16,
}

impl Listener {
    /// Starts a program that is to listen at a port.
    fn start(program: &mut Command, port: u16) -> Listener {
        let child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        let listener = Listener { child, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{program:?} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        listener
    }

    fn end(&mut self) {
        let ended = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill is there");
        assert!(ended.success() && self.child.wait().expect("it ends").success());
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// A Collector that receives OTLP, writes files, and passes metrics on.
pub struct Collector {
    listener: Listener,
    folder: tempfile::TempDir,
    /// Its address for HTTP.
    pub url: String,
    /// Its address for gRPC.
    pub grpc: String,
}

impl Collector {
    /// Starts one, which passes metrics on to `behind`.
    pub fn new(behind: Option<&VictoriaMetrics>) -> Collector {
        let program = std::env::var("KILN_COLLECTOR").expect("make test-collector says where the Collector is");
        let folder = tempfile::tempdir().expect("a folder");
        let [port, grpc] = [free_port(), free_port()];
        let path = folder.path().display();
        let mut configuration = format!(
            "receivers:
  otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}, grpc: {{endpoint: '127.0.0.1:{grpc}'}}}}}}
processors: {{deltatocumulative: {{}}}}
exporters:
  file/metrics: {{path: '{path}/metrics'}}
  file/logs: {{path: '{path}/logs'}}
  otlphttp: {{metrics_endpoint: '{}/opentelemetry/v1/metrics', sending_queue: {{enabled: false}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [otlp], exporters: [file/metrics]}}
    logs: {{receivers: [otlp], exporters: [file/logs]}}
",
            behind.map(VictoriaMetrics::url).unwrap_or_default()
        );
        if behind.is_some() {
            configuration +=
                "    metrics/totals: {receivers: [otlp], processors: [deltatocumulative], exporters: [otlphttp]}\n";
        }
        let file = folder.path().join("collector.yaml");
        std::fs::write(&file, configuration).expect("a file");
        let mut command = Command::new(program);
        command.arg("--config").arg(format!("file:{}", file.display()));
        let listener = Listener::start(&mut command, port);
        let [url, grpc] = [format!("http://127.0.0.1:{port}"), format!("grpc://127.0.0.1:{grpc}")];
        Collector { listener, folder, url, grpc }
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends it: its files are whole then.
    pub fn end(&mut self) {
        self.listener.end();
    }

    /// Ends it, and returns the documents of a file that it wrote.
    pub fn ended(&mut self) -> impl Fn(&str) -> Vec<Json> {
        self.end();
        let folder = self.folder.path().to_owned();
        move |name| {
            let text = std::fs::read_to_string(folder.join(name)).expect("the Collector wrote it");
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        }
    }
}

/// VictoriaMetrics, with the names that Prometheus would give.
pub struct VictoriaMetrics {
    listener: Listener,
    _folder: tempfile::TempDir,
}

impl VictoriaMetrics {
    pub fn new() -> VictoriaMetrics {
        let program = std::env::var("KILN_VICTORIA_METRICS").expect("make test-collector says where it is");
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let mut command = Command::new(program);
        command.arg(format!("-httpListenAddr=127.0.0.1:{port}"));
        command.arg(format!("-storageDataPath={}", folder.path().display()));
        command.args(["-opentelemetry.usePrometheusNaming", "-search.latencyOffset=0s", "-search.disableCache"]);
        VictoriaMetrics { listener: Listener::start(&mut command, port), _folder: folder }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.listener.port)
    }

    /// Waits until it finds all that it was sent: that takes it a second or two.
    pub fn settle(&self) {
        let mut before = Vec::new();
        for _ in 0..30 {
            self.get("/internal/force_flush");
            std::thread::sleep(Duration::from_secs(1));
            let now = self.ask("sum by (__name__) (count_over_time({__name__!=''}[1d]))");
            if now == before && !now.is_empty() {
                return;
            }
            before = now;
        }
        panic!("VictoriaMetrics does not settle");
    }

    fn get(&self, path: &str) -> String {
        let answer = ureq::get(format!("{}{path}", self.url())).call();
        answer.expect("it answers").body_mut().read_to_string().expect("text")
    }

    /// The answer of a query now: the labels and the value of each series.
    pub fn ask(&self, query: &str) -> Vec<(Json, f64)> {
        let text: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer: Json = serde_json::from_str(&self.get(&format!("/api/v1/query?query={text}"))).expect("JSON");
        let all = answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{query}: {answer}"));
        let value = |row: &Json| row["value"][1].as_str().and_then(|text| text.parse().ok()).expect("a number");
        all.iter().map(|row| (row["metric"].clone(), value(row))).collect()
    }
}
