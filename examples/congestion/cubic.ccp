; CUBIC (RFC 9438): after a loss the window is a cubic function of time. It is flat where the loss was, and steeper the
; further it is away from there. How long the way there takes is a cube root, which user space computes at each loss. Until it
; answers, and when it is no longer there, the window grows as the RFC's Reno-friendly one: by half a segment each
; round trip.
(def (Report (volatile acked 0) (volatile lost 0) (window 0) (most 0) (apex 0))
    (slow +infinity) (friend 0) (floor +infinity) (away 0) (target 0))
(when true
    (:= acked (+ acked Ack.bytes_acked))
    (:= lost (+ lost Ack.lost_pkts_sample))
    (:= window (if (== window 0) Cwnd window))
    (:= floor (if (> Flow.rtt_sample_us 0) (min floor Flow.rtt_sample_us) floor))
    (fallthrough))
; After a timeout, slow start up to where a loss would have led.
(when (> Flow.was_timeout 0)
    (:= slow (max (/ (* 7 window) 10) (* 2 Flow.mss)))
    (:= window (* 2 Flow.mss))
    (:= Cwnd window))
; A loss counts once in a round trip. Who loses earlier than the last time leaves room for others.
(when (&& (> Ack.lost_pkts_sample 0) (|| (< window slow) (> Micros Flow.rtt_sample_us)))
    (:= most (if (< window most) (/ (* 85 window) 100) window))
    (:= window (max (/ (* 7 window) 10) (* 2 Flow.mss)))
    (:= slow window)
    (:= friend window)
    (:= apex 0)
    (:= Micros 0)
    (:= Cwnd window)
    (report))
; Slow start ends where round trips become longer (HyStart). Then the flat part is here.
(when (< window slow)
    (:= window (+ window Ack.bytes_acked))
    (:= slow (if (> Flow.rtt_sample_us (+ floor (max 4000 (/ floor 8)))) window slow))
    (:= most window)
    (:= friend window)
    (:= apex 1)
    (:= Micros 0)
    (:= Cwnd window))
; 0.4 segments for the cube of a second; `away` is in milliseconds, then in bytes.
(when true
    (:= friend (+ friend (/ (* 53 (* Flow.mss Ack.bytes_acked)) (* 100 window))))
    (:= away (min 30000 (/ (if (> Micros apex) (- Micros apex) (- apex Micros)) 1000)))
    (:= away (/ (* (* 4 Flow.mss) (* away (* away away))) 10000000000))
    (:= target (if (== apex 0) 0 (if (> Micros apex) (+ most away) (- most away))))
    (:= window (max (max window friend) (min target (+ window (/ Ack.bytes_acked 2)))))
    (:= Cwnd window))
(on-report true
    (:= apex (max 1 (* 1000000 (cbrt (/ (- most window) (* 0.4 Flow.mss)))))))
