"""Full stops that end no sentence, in the languages whose sentences sentencex finds.

It knows many abbreviations of many languages; here are those that it ends a sentence on, and the
rules that no list holds: initials, ordinals, an abbreviation before a number. Some abbreviations
also end sentences ("usw.", "г."): they go on only where a small letter or a figure follows, which
is so in every language. Knows nothing of English, Chinese and Japanese (`segmenter.py`).
"""

from __future__ import annotations

import re

from voxcli.text.patterns import pattern_of

# Without the last stop; a sentence never ends on one, whatever follows.
_LISTS = {
    "de": "abb abs abt adr akad allg anm ao art aufl az bd bde bes betr bez bhf bsp bzw ca chr "
          "cm co "
    "ders dgl dipl dir dr ebd ed eigtl einschl engl entspr evtl exkl exz fa fam ff fig fr frl "
    "frz gd "
    "geb gebr gem gen ges gest ggf ggfs griech hg hl hr hrn hrsg hbf ing inh inkl insb insg "
    "int ital jg jh "
    "kap kath kfm kgl komm lat led lt ltd mag max med min mind mio mr mrd mrs mtl nat nr nrn "
    "o.ä ober "
    "od orig österr p.a pag pfr phil pl pol präs priv proj prof rd rel röm russ s sog span spez st "
    "stellv stk std str tel u.a urspr u.u usf v verf vers vgl vorm vors z.b z.t zb zt ziff "
    "zzgl zw m.e "
    "d.h i.d.r o.g s.o s.u u.ä i.a u.v.a m.w i.e",
    "fr": "m mm mme mmes mlle mlles mgr me mes dr drs pr prof st ste sts stes av bd boul pl r "
          "art chap fig "
    "vol p pp pag t tel tél n no nos num éd ed env cf c.-à-d j.-c ms mss adj adv apr av bibl "
    "cap capit "
    "cie col coll comm dép dir doc ex exp ext gal gén hab inf int ital lat lieut loc max min "
    "obs op "
    "par prép réf rév sec sect sept suiv sup trad v h ch",
    "es": "sr sra srta sres sras srs dr dra dres d dña dª ud uds vd vds av avda avd c pza pl "
          "art arts cap "
    "caps vol vols fig figs pág págs pag pags p pp núm num nums n.º nº tel tfno tlf aprox máx "
    "mín prof "
    "profa lic licda ing arq gral cap cnel tte cía cia hnos edo prov dpto depto ed eds ej p.ej "
    "s.a ee.uu "
    "a.c d.c st sto sta fr mons excmo excma ilmo ilma rvdo hno ca cf vid v s ss km min seg",
    "it": "sig sigg sig.ra sig.na sig.re dott dott.ssa dr prof prof.ssa proff avv ing arch "
          "geom rag on "
    "sen mons don s ss n nn num nr pag pagg p pp vol voll cap capp art artt fig figg tav col "
    "cfr cf "
    "vd v tel es p.es ca c.a fraz loc via viale p.za p.zza c.so ed a.c d.c sec secc comm cav "
    "gen col "
    "magg ten dir min max intr trad lat gr ingl franc ted",
    "pt": "sr sra srs sras srta dr dra drs dras prof profa profs eng enga arq adv exmo exma "
          "ilmo ilma av "
    "avda r rod estr trav tv pça pç lgo art arts cap caps vol vols fig figs pág págs pag p pp "
    "séc sécs "
    "núm num n nº tel ed eds ex aprox máx mín cf gen cel cap ten sgt d dom st sto sta v vs a.c d.c "
    "obs dept depto ltda cia jan fev mar abr jun jul ago set out nov dez",
    "ru": "ул пр просп пл наб пер ш б-р им г-н г-жа гг акад проф доц д-р инж св стр рис табл "
          "гл ст п пп кв "
    "корп обл р-н пос дер с тел т.е т.к т.н см ср напр др ок прим изд ред сост ген полк кап лейт "
    "сл англ нем фр рус греч лат им тыс млн млрд трлн",
    "nl": "dhr mevr mw mej mr dr drs prof ir ing ds jhr st nr nrs blz bladz pag bv bijv bijz "
          "ca max min "
    "excl incl vgl zgn evt resp art afd afb hfdst tel fa jl dwz d.w.z o.a m.b.t t.a.v i.p.v t.o.v "
    "a.s b.v m.a.w n.a.v i.v.m t.g.v v.chr n.chr m.n m.i kol gen cap burg wed",
    "sv": "t.ex bl.a d.v.s dvs ca kl nr s sid st tel dr prof fr frk hr jfr jmf resp inkl exkl "
          "kap fig tab "
    "ang avd bil ex f.d f.n fig forts f.ö förf kr m.a.o m.fl milj mkt n.b obs o.d övers p.g.a s.k "
    "skr sv t.o.m t.h t.v tfn uppl u.å v.g äv doc ing",
    "da": "f.eks bl.a ca dvs hr fr frk dr prof nr s st tlf kr mio mia jf jvf inkl ekskl kap kl "
          "kgl mag "
    "max min mfl vedr pga pgr pkt red ref resp sml sa skt tab tlf udg uds ugtl vha øvr adv afd alm "
    "ang angl art bd bem bl el ev evt f fig fhv forf gl hhv ift ifm isf jr lign lic lr",
    "no": "f.eks bl.a ca dvs hr fr frk dr prof nr s st tlf kr mill mrd jf jfr inkl ekskl kap "
          "kl maks min "
    "pga red ref resp sml tab vedr adm adr alm ang art bd e.kr f.kr evt fhv forf fork gl hhv iflg "
    "kgl kol lic mag osv pkt sr",
    "pl": "ul al pl os dr hab prof mgr inż św ks bp abp o im nr nry str s tj tzn tzw np m.in "
          "ok godz min "
    "sek tel t tab rys ryc zob por wg ww ds płk ppłk gen por kpt sierż red wyd rozdz art ust "
    "pkt poz "
    "par dyr doc lek adm arch b br cz dot ew gm gł hr kl kol lic maks ob obr odc oo p pn pow "
    "poł r.ż "
    "rkps sp śp tłum ur woj wym zł zm zn",
    "fi": "esim ns n mm tri prof klo s ss puh nro nrot nr os v vrt ks ts ko em lk kpl kk min maks "
    "eKr jKr ap ip dos maist fil toht ent al alk artikl ei engl erit evl fak hum ilm",
    "cs": "např tzv tj tzn č čj str s mj dr ing mgr mudr judr phdr bc doc prof sv ul nám tel r "
          "kap obr tab "
    "hl max min mil mld odd odst orig pí př red roč srov viz vyd zvl gen kpt plk por ap ca cca",
    "hu": "dr id ifj özv prof pl kb ill vö ld szt st u tel bp ker okl t tc utca mfszt sz",
    "ro": "dl dna dlui dr prof ing arh str bd nr pag p art cap vol fig tel sf cca aprox ex etc "
          "max min ş.a",
    "tr": "dr prof doç yrd sn av müh alb gen sok cad mah no bkz örn çev haz yay vs s cilt a.ş st",
    "el": "κ κα κκ δρ καθ αρ σελ βλ π.χ δηλ τηλ οδ λεωφ αγ στρ κεφ εικ πιν ευρ",
    "uk": "вул просп пл пров ім акад проф доц св стор рис табл гл ст п кв корп обл р-н тел див "
          "напр ін бл тис млн млрд",
    "id": "dr prof ir drs dra jl no hlm tel st kh hj yth a.n u.p d.a",
}  # fmt: skip
_LISTED = {language: frozenset(names.split()) for language, names in _LISTS.items()}
_TOKEN = pattern_of(r"[^\s(\[\"'“‘«„]*\Z")
_ROMAN = pattern_of(r"[IVXLCM]+\Z")
# Before "2. Weltkrieg" stands a word that a number of its own would not follow.
_DETERMINERS = {
    "de": pattern_of(
        r"\b(?:de[rmns]|die|das|des|am|im|vom|zum|zur|beim|bis|ab|seit|jede[rmns]?|"
        r"diese[rmns]?|eine[rmns]?|ein|"
        r"(?:sein|ihr|mein|dein|unser|euer)e?[rmns]?|erste[rmns]?|und|oder|Dezember|Papst|"
        r"König|Kaiser)\s\d{1,3}\.\Z",
        re.I,
    ),
    "da": pattern_of(r"\b(?:de[nt]|d\.|fra|til|og)\s\d{1,2}\.\Z", re.I),
    "no": pattern_of(r"\b(?:de[nt]|d\.|fra|til|og)\s\d{1,2}\.\Z", re.I),
    "fi": pattern_of(r"\b(?:vuoden|se|ja)\s\d{1,2}\.\Z", re.I),
}  # fmt: skip
_DASHED = pattern_of(r"\s*[—–-]\s*")


def goes_on(line: str, end: int, language: str) -> bool:
    """Whether a sentence that seems to end at `end` of the line goes on after it."""
    rest = line[end:]
    following = _DASHED.sub("", rest, count=1).lstrip()[:1]
    if following.islower():
        return True
    if not line.endswith(".", 0, end) or line.endswith("..", 0, end):
        return False
    found = _TOKEN.search(line, max(0, end - 40), end - 1)
    word = found.group() if found else ""
    if len(word) == 1 and word.isupper() and not _ROMAN.match(word):
        return True  # an initial
    if word.lower() in _LISTED.get(language, ()):
        return True
    determiner = _DETERMINERS.get(language)
    if determiner and determiner.search(line, max(0, end - 30), end):
        return rest.lstrip()[:1].isupper()
    return following.isdecimal() and word.isalpha() and len(word) <= 4
