; Paced by the rate at which packets arrive, in pulses as BBR's: for a round trip a quarter faster, to find more; for
; one a quarter slower, to empty the queue that this made; for six as measured. The highest rate and the lowest round
; trip are measured anew every ten seconds.
(def (Report (volatile acked 0) (rate 0) (volatile minrtt +infinity)) (pulse 0) (best 0) (floor +infinity) (epoch 0))
(when true
    (:= acked (+ acked Ack.bytes_acked))
    (:= best (max best Flow.rate_incoming))
    (:= floor (min floor Flow.rtt_sample_us))
    (:= minrtt (min minrtt Flow.rtt_sample_us))
    (:= rate best)
    (fallthrough))
(when (> (- Ack.now epoch) 10000000)
    (:= epoch Ack.now)
    (:= best Flow.rate_incoming)
    (:= floor Flow.rtt_sample_us)
    (fallthrough))
; Twice what fits on the way at this rate, so that the rate limits and not the window; ten segments at least.
(when true
    (:= Cwnd (max (* 10 Flow.mss) (/ (* 2 (* best floor)) 1000000)))
    (fallthrough))
(when (> Micros floor)
    (:= pulse (if (>= pulse 7) 0 (+ pulse 1)))
    (:= Micros 0)
    (:= Rate (if (== pulse 0) (/ (* 5 best) 4) (if (== pulse 1) (/ (* 3 best) 4) best)))
    (report))
