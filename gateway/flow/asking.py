"""By which words people ask for what tools do: data, read by `gateway.flow.intent`.

General English, in the base form. A word that is missing costs a question to a person.
"""

import re
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
take remove off revoke delete clear
renew prescribe extend reorder
redirect move deliver reroute divert forward change
send schick schicke senden sende verschicke leite envoie envoyer transmets envia enviar manda mandar
    invia inviare stuur verstuur
write message reply comment tell post schreib schreibe antworte antworten beantworte sag sage melde
    ecris ecrire reponds repondre dis previens escribe responde avisa dile scrivi rispondi schrijf
create add make book schedule erstelle anlegen buche vereinbare trage hinzufugen cree creer ajoute
    reserve crea anade agrega aggiungi prenota maak boek
delete remove cancel losche loschen entferne entfernen storniere absagen wirf supprime supprimer
    efface annule annuler enleve borra borrar elimina cancela cancella annulla verwijder annuleer
change update set andere andern aktualisiere stell stelle setze change modifie mets mettre cambia
    actualiza pon imposta aggiorna wijzig zet
move postpone reschedule verschiebe verlege deplace reporte mueve sposta verplaats
pay transfer buy order bezahle bezahlen uberweise uberweisen zahle kaufe kauf bestelle bestell paie
    payer vire achete commande paga pagar transfiere compra pide ordina betaal koop bestel
start run turn starte starten schalte lance demarre allume inicia ejecuta enciende avvia accendi
stop end turn stoppe beende ausschalten eteins arrete apaga deten spegni
lock close secure abschliessen schliesse sperre ferme verrouille cierra chiudi sluit
unlock open offne offnen ouvre abre apri
share invite grant teile lade partage invite comparte invita condividi deel nodig
assign weise zuweisen assigne asigna asignalo assegna
copy copiere kopiere copie copia
"""
"""Verbs that ask for the same, those of a line that is indented with the line before it; a verb may stand
in more than one."""

ASKING: Mapping[Effect, str] = {
    Effect.EGRESS: """
        email mail message invitation invite reply post send forward respond answer tell inform notify
        share publish comment announce text remind write ask know review rate report submit contact
        file say thank confirm warn apologise apologize explain congratulate ping request offer propose
        register sign apply raise escalate bill acknowledge enquire inquire copy
        nudge chase circulate distribute brief introduce welcome greet wish pitch deliver dispatch speak
        talk alert warn
        """,
    Effect.PAY: """
        payment bill invoice rent transaction order pay buy purchase checkout settle refund transfer
        wire reimburse book reserve subscribe donate tip sell trade invest return exchange voucher
        charge renew deposit hire rental reservation compensate compensation topup payout payroll spend
        contribute contribution
        """,
    Effect.DESTROY: """
        delete remove erase discard clear drop purge wipe cancel revoke destroy off stop end shut close
        terminate take rid unsubscribe uninstall ban block forget void retire withdraw decommission
        offboard deregister disconnect detach kill dissolve
        """,
    Effect.CREDENTIAL: """
        password access permission right role grant allow let authorize credential login key token
        change update reset record rights admin code give invite lock unlock rotate renew
        onboard offboard promote demote enrol enroll authorise
        """,
    Effect.EXECUTE: "run rerun retry redo execute start launch restart reboot deploy trigger activate build rebuild invoke",
}
"""Words by which an act of each effect is asked for, whatever its tool is called."""

AT_A_URL = "page webpage website site url link article blog feed runbook documentation docs todo"
"""What lies at a URL."""

_IDIOMS = (
    (
        r"\b(?:drop|shoot|give|send|leave|ping)(?: [^ ,.!?]+){1,6}? (?:an?|some)(?: \w+)? (?:line|note|word|shout|ring)\b",
        "send write message",
    ),
    (
        r"\b(?:bin|ditch|chuck|bin off) (?:the|it|all|every|everything|this|that|these|those|them|any|off|out)\b",
        "delete remove",
    ),
    (r"\b(?:get rid of|clear out|do away with|throw away)\b", "delete remove"),
    (
        r"\bget (?:me|us|him|her|them|myself|ourselves) (?:an?|one|two|three|four|five|six|some|another|\d+)\b",
        "buy order book",
    ),
    (r"\blet (?:[^ ,.!?]+ ){1,4}?know\b", "tell notify write"),
    (r"\b(?:get back|reach out|follow up) (?:to|with)\b", "reply write message"),
    (r"\btop(?: [^ ,.!?]+){0,4}? up\b", "pay topup add"),
    (r"\bset(?: [^ ,.!?]+){0,3}? up\b", "create add configure"),
    (
        r"\b(?:take|bring)(?: [^ ,.!?]+){0,3}? (?:page|site|website|post|listing|notice|ad|banner) (?:down|offline)\b",
        "remove delete",
    ),
    (r"\bkick(?: [^ ,.!?]+){0,3}? (?:out|off)\b", "remove revoke"),
    (
        r"\b(?:put|pencil|sign)(?: [^ ,.!?]+){1,4}? (?:down for|in for|up for)\b",
        "book reserve register add",
    ),
    (r"\bcall(?: [^ ,.!?]+){0,3}? off\b", "cancel"),
    (
        r"\b(?:put|push)(?: [^ ,.!?]+){1,3}? (?:back|off)\b|\b(?:put|push) (?:back|off)\b",
        "postpone move reschedule",
    ),
    (r"\bpass(?: [^ ,.!?]+){0,4}? (?:on|along|over)\b", "send forward tell"),
    (r"\bkeep(?: [^ ,.!?]+){1,4}? (?:posted|updated|informed|in the loop)\b", "tell notify write"),
)
IDIOMS = tuple((re.compile(shape), tuple(meant.split())) for shape, meant in _IDIOMS)
"""Where the words together ask for what none of them does alone, and the verbs that do."""

FINDING_OUT = frozenset(
    """
    look see tell explain show give compare summarise summarize list find search check count read
    what which who whose whom when where how why whether is are do does did has have am
    """.split()  # noqa: SIM905 - a table of words
)
"""Words with which people begin to ask for an answer, beside the verbs of tools that read."""

BESIDE_ORDERS = frozenset(
    """
    and then please or you just also kindly now but so ok okay hi hey hello dear thanks thank
    the a an my our your his her its their this that these those some any all both each every no not
    i we he she it they there if in on at to for from with by of as about into out up
    first second next finally last lastly perform following task tasks step steps
    """.split()  # noqa: SIM905 - a table of words
)
"""Words that stand where an order may, and order nothing."""
