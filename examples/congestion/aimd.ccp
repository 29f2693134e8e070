; Additive increase, multiplicative decrease: one segment more each round trip, half after a loss, as Reno does.
(def (Report (volatile acked 0) (volatile lost 0) (window 0)) (since 0))
(when true
    (:= acked (+ acked Ack.packets_acked))
    (:= lost (+ lost Ack.lost_pkts_sample))
    (:= since (+ since Ack.bytes_acked))
    (:= window Cwnd)
    (fallthrough))
; After a timeout, slow start.
(when (> Flow.was_timeout 0)
    (:= Cwnd (* 4 Flow.mss))
    (:= since 0))
; A loss counts once in a round trip.
(when (&& (> Ack.lost_pkts_sample 0) (> Micros Flow.rtt_sample_us))
    (:= Cwnd (max (/ Cwnd 2) (* 2 Flow.mss)))
    (:= Micros 0)
    (:= since 0)
    (report))
; Each window that arrives adds a segment.
(when (>= since Cwnd)
    (:= Cwnd (+ Cwnd Flow.mss))
    (:= since 0))
