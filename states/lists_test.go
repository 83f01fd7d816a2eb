package states

// The values of the types that tests of this package alone go through. The others have
// their lists beside them; TestTheListsAreComplete holds all
// of them to the constants.

// orphans lists every orphan.
var orphans = []Orphan{OrphanNone, OrphanUnsure, OrphanCurrent, OrphanOutdated}

// upkeeps lists every upkeep.
var upkeeps = []Upkeep{UpkeepNone, UpkeepCreate, UpkeepSync, UpkeepDelete}

// loans lists every loan.
var loans = []Loan{LoanUnknown, LoanOpen, LoanClosed}

// policyViews lists every view of a policy.
var policyViews = []PolicyView{PolicyNone, PolicyCurrent, PolicyDrifted, PolicyEarlier, PolicyTerminating, PolicyForeign}
