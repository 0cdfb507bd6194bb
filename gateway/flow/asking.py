"""By which words people ask for what tools do: data, read by `gateway.flow.intent`.

General English, in the base form. A word that is missing costs a question to a person.
"""

from collections.abc import Mapping

from gateway.domain.labels import Effect

ALIKE = """
delete remove erase trash discard clear clean drop purge wipe cancel revoke unshare destroy empty throw
    toss scrap withdraw
send forward reply respond share invite notify post publish submit upload announce deliver tell
    inform answer message ask text remind write comment say refer mention report call
pay refund transfer wire reimburse settle buy purchase order remit donate checkout
create add make schedule book rebook reserve set put plan arrange organize organise register open
    write file record note log draft save enter
append add insert put write attach
update change modify adjust edit reset move reschedule shift postpone extend renew correct rename
    replace set append mark save label assign raise lower record fix put turn switch
get read open visit browse fetch download look check see view summarize summarise
set adjust turn switch dim heat warm cool raise lower change control put
start run rerun retry redo repeat execute launch trigger begin restart reboot deploy activate apply
stop end terminate kill close shut deactivate disable finish suspend pause
close resolve finish complete done archive
assign give hand delegate allocate pass
grant give allow authorize authorise invite let add permit
commit push write fix change implement update
lock close secure
unlock open
return exchange refund send
take remove off
"""
"""Verbs that ask for the same, those of a line that is indented with the line before it; a verb may stand
in more than one."""

ASKING: Mapping[Effect, str] = {
    Effect.EGRESS: """
        email mail message invitation invite reply post send forward respond answer tell inform notify
        share publish comment announce text remind write ask know review rate report submit contact
        file say
        """,
    Effect.PAY: """
        payment bill invoice rent transaction order pay buy purchase checkout settle refund transfer
        wire reimburse book reserve subscribe donate tip sell trade invest return exchange voucher
        """,
    Effect.DESTROY: """
        delete remove erase discard clear drop purge wipe cancel revoke destroy off stop end shut close
        terminate
        """,
    Effect.CREDENTIAL: """
        password access permission right role grant allow let authorize credential login key token
        change update reset record
        """,
    Effect.EXECUTE: "run rerun retry redo execute start launch restart reboot deploy trigger activate",
}
"""Words by which an act of each effect is asked for, whatever its tool is called."""

AT_A_URL = "page webpage website site url link article blog feed runbook documentation docs todo"
"""What lies at a URL."""
